package e2e

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A pod that takes all it can get of a resource leaves the daemon, its shards and other pods enough to go on.

func TestFloorOfMemory(t *testing.T) {
	needContainers(t)
	total := number(t, "/proc/meminfo", "MemTotal:") << 10
	d := start(t, "--system-reserved", fmt.Sprintf("memory=%d", total-200<<20), "--eviction-hard", "", "--pod-backoff-base", "100ms")
	shards := d.shards()
	d.apply(`{apiVersion: batch/v1, kind: Job, metadata: {name: hogs}, spec: {parallelism: 3, completions: 3, backoffLimit: 3, template: {spec: {
		restartPolicy: Never, containers: [{name: c, image: "busybox:1.36", command: [tail, /dev/zero]}]}}}}`)
	for _, p := range d.pods(d.failed("hogs", "BackoffLimitExceeded").Name) {
		if ended := p.Status.ContainerStatuses[0].State.Terminated; ended == nil || ended.ExitCode != 137 {
			t.Errorf("%s: %+v, want it to be killed", p.Name, ended)
		}
	}
	d.goesOn(shards)
	if free := number(t, "/proc/meminfo", "MemAvailable:"); free == 0 {
		t.Error("nothing is left")
	}
}

func TestFloorOfProcesses(t *testing.T) {
	needContainers(t)
	capacity := min(number(t, "/proc/sys/kernel/pid_max", ""), number(t, "/proc/sys/kernel/threads-max", ""))
	bomb := onePod("bomb", "busybox:1.36", "while true; do sleep 1000 & done; sleep 1000")
	t.Run("of one container", func(t *testing.T) {
		d := start(t, "--system-reserved", fmt.Sprintf("pid=%d", capacity-200))
		shards := d.shards()
		d.apply(bomb)
		d.podSays("bomb", "can't fork")
		d.goesOn(shards)
		d.jobctl("delete", "pod", "bomb")
	})
	t.Run("of all pods", func(t *testing.T) {
		d := start(t, "--system-reserved", fmt.Sprintf("pid=%d", capacity-100), "--pids-limit", "0")
		shards := d.shards()
		d.apply(bomb)
		d.podSays("bomb", "can't fork")
		d.jobctl("get", "pods")
		d.jobctl("delete", "pod", "bomb")
		d.goesOn(shards)
	})
}

// podSays waits until a pod has printed something.
func (d *daemon) podSays(pod, words string) {
	d.t.Helper()
	d.eventually(pod+" says "+words, func() error {
		out, err := d.try("jobctl", nil, "logs", pod)
		if err == nil && !strings.Contains(out, words) {
			err = fmt.Errorf("%.1000s", out)
		}
		return err
	})
}

// The kernel counts inotify instances per user, and root's include the daemon's.
func TestFloorOfInotify(t *testing.T) {
	needContainers(t)
	d := start(t)
	shards := d.shards()
	instances := number(t, "/proc/sys/fs/inotify/max_user_instances", "")
	d.apply(onePod("hog", "busybox:1.36", fmt.Sprintf(
		"i=0; while [ $i -lt %d ]; do inotifyd true /tmp & i=$((i+1)); done; echo all; sleep 1000", instances+10)))
	d.podSays("hog", "all")
	d.apply(onePod("talks", "busybox:1.36", "for i in 1 2 3; do echo $i; sleep 0.3; done"))
	d.podUntil("talks", "runs", func(p *corev1.Pod) bool { return p.Status.Phase != corev1.PodPending })
	if out := d.jobctl("logs", "-f", "talks"); out != "1\n2\n3\n" {
		t.Errorf("it says %q", out)
	}
	d.goesOn(shards)
}

func TestFloorOfDisk(t *testing.T) {
	needContainers(t)
	for name, command := range map[string]string{
		"bytes":  "dd if=/dev/zero of=/v/f bs=64k; cat /dev/zero > /v/g; echo full; sleep 1000",
		"inodes": "mkdir /v/d; seq 1000000 | sed s,^,/v/d/, | xargs touch 2>/dev/null; echo full; sleep 1000",
	} {
		t.Run(name, func(t *testing.T) {
			d := startIn(t, smallDisk(t, 192, "nr_inodes=6000"), "--eviction-hard", "", "--image-gc-high-threshold", "100")
			shards := d.shards()
			d.apply(`{apiVersion: batch/v1, kind: Job, metadata: {name: others}, spec: {parallelism: 20, completions: 20, template: {spec: {
				restartPolicy: Never, containers: [{name: c, image: "busybox:1.36", command: [sh, -c, "trap exit TERM; sleep 1000 & wait"]}]}}}}`)
			d.running("others", 20)
			d.apply(`{apiVersion: v1, kind: Pod, metadata: {name: hog}, spec: {restartPolicy: Never, terminationGracePeriodSeconds: 0,
				volumes: [{name: v, emptyDir: {}}], containers: [{name: c, image: "busybox:1.36", volumeMounts: [{name: v, mountPath: /v}],
				command: [sh, -c, ` + strconv.Quote(command) + `]}]}}`)
			d.eventually("the disk is full", func() error {
				if f, err := os.CreateTemp(d.root, "probe"); err == nil {
					_, err = f.Write(make([]byte, 1<<16))
					f.Close()
					os.Remove(f.Name())
					if err == nil {
						return fmt.Errorf("there is room")
					}
				}
				return nil
			})
			// While the disk is full, a command is run, pods are changed, and the twenty pods of a suspended Job end.
			d.jobctl("exec", "hog", "--", "true")
			for _, p := range d.pods("others") {
				d.jobctl("annotate", "pod", p.Name, "while=full")
			}
			d.jobctl("patch", "job", "others", "-p", `{"spec": {"suspend": true}}`)
			d.until("others", "has no pods", func(j *batchv1.Job) bool { return j.Status.Active == 0 })
			d.kill()
			d.serve()
			d.jobctl("delete", "pod", "hog")
			d.jobctl("patch", "job", "others", "-p", `{"spec": {"suspend": false}}`)
			d.running("others", 20)
			d.goesOn(shards)
		})
	}
}

// goesOn checks that a Job completes and its log can be read, that the shards are still the same, and that the daemon
// has not ended and answers.
func (d *daemon) goesOn(shards []int) {
	d.t.Helper()
	d.apply(`{apiVersion: batch/v1, kind: Job, metadata: {name: goes-on}, spec: {template: {spec: {restartPolicy: Never,
		containers: [{name: c, image: "busybox:1.36", command: [echo, fine]}]}}}}`)
	d.complete("goes-on")
	if out := d.jobctl("logs", "jobs/goes-on"); out != "fine\n" {
		d.t.Errorf("it says %q", out)
	}
	if now := d.shards(); !slices.Equal(now, shards) {
		d.t.Errorf("shards %v, they were %v", now, shards)
	}
	select {
	case <-d.ended:
		d.t.Error("the daemon has ended")
	default:
	}
	if _, err := d.CoreV1().Nodes().List(d.t.Context(), metav1.ListOptions{}); err != nil {
		d.t.Error(err)
	}
}

// number reads the number after a word in a file; 0 if there is none.
func number(t *testing.T, path, word string) int64 {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), word)
	n := int64(0)
	_, _ = fmt.Sscan(rest, &n)
	return n
}
