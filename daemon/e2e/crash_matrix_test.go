package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/testdata/registry"
)

// crashJobs are what runs while something crashes. Each container notes on the host that it was run, in a file named
// after the pod and the container. `never` and `onfailure` fail in their first run, which they know from their claims.
const crashJobs = `
apiVersion: v1
kind: ConfigMap
metadata: {name: words}
data: {word: hello}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: loop}
provisioner: jobd.dev/local
parameters: {type: loop}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: directory}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 16Mi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: loop}
spec: {storageClassName: loop, accessModes: [ReadWriteOnce], resources: {requests: {storage: 16Mi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: device}
spec: {volumeMode: Block, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: plain}
spec:
  IGNORE
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: c, image: "PULLED", ENV, command: [sh, -c, "NOTE c; echo begin; sleep 0.1; echo end"], ports: [{containerPort: 80, hostPort: PORT}], volumeMounts: [OUT]}
      volumes: [NOTES]
---
apiVersion: batch/v1
kind: Job
metadata: {name: never}
spec:
  IGNORE
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: c, image: "busybox:1.36", ENV, command: [sh, -c, "NOTE c; echo begin; echo run >> /claim/runs; echo end; [ $(cat /claim/runs | wc -l) -gt 1 ]"], volumeMounts: [OUT, {name: claim, mountPath: /claim}]}
      volumes: [NOTES, {name: claim, persistentVolumeClaim: {claimName: directory}}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: onfailure}
spec:
  template:
    spec:
      hostUsers: true
      restartPolicy: OnFailure
      containers:
      - {name: c, image: "busybox:1.36", ENV, command: [sh, -c, "NOTE c; echo begin; echo run >> /claim/runs; echo end; [ $(cat /claim/runs | wc -l) -gt 1 ]"], terminationMessagePolicy: FallbackToLogsOnError, volumeMounts: [OUT, {name: claim, mountPath: /claim}], volumeDevices: [{name: device, devicePath: /dev/device}]}
      volumes: [NOTES, {name: claim, persistentVolumeClaim: {claimName: loop}}, {name: device, persistentVolumeClaim: {claimName: device}}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: whole}
spec:
  IGNORE
  template:
    spec:
      restartPolicy: Never
      shareProcessNamespace: true
      initContainers:
      - {name: first, image: "busybox:1.36", ENV, command: [sh, -c, "NOTE first; echo begin; cat /words/word > /disk/word; echo end"], volumeMounts: [OUT, {name: disk, mountPath: /disk}, {name: words, mountPath: /words}]}
      - {name: side, image: "busybox:1.36", restartPolicy: Always, ENV, command: [sh, -c, "trap 'echo end; exit 0' TERM; NOTE side; echo begin; touch /memory/up; sleep 1000 & wait"], volumeMounts: [OUT, {name: memory, mountPath: /memory}]}
      containers:
      - {name: c, image: "busybox:1.36", ENV, command: [sh, -c, "NOTE c; echo begin; until [ -f /memory/up ]; do sleep 0.02; done; sleep 0.3; echo end; [ -x /image/bin/busybox ] && [ $(cat /sub/word) = hello ]"], volumeMounts: [OUT, {name: image, mountPath: /image}, {name: memory, mountPath: /memory}, {name: disk, mountPath: /sub/word, subPath: word}]}
      volumes: [NOTES, {name: image, image: {reference: "busybox:1.36"}}, {name: disk, emptyDir: {}}, {name: memory, emptyDir: {medium: Memory}}, {name: words, configMap: {name: words}}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: indexed}
spec:
  completions: 3
  parallelism: 3
  completionMode: Indexed
  IGNORE
  template:
    spec:
      hostUsers: false
      restartPolicy: Never
      containers:
      - {name: c, image: "busybox:1.36", ENV, command: [sh, -c, "NOTE c; echo begin; sleep 0.$JOB_COMPLETION_INDEX; echo end"], volumeMounts: [OUT]}
      volumes: [NOTES]
`

// matrix is a daemon that kills itself where it is told to, as do its shards.
type matrix struct {
	*crashing
	control string // the directory in which it is told
	port    string // a free port of the host
	pulled  string // an image that is present only while it is used
}

// crashBuild builds programs that can be told where to die.
func crashBuild(t *testing.T) string {
	t.Helper()
	needContainers(t)
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs go, to build what crashes")
	}
	if out, err := buildCrash(); err != nil {
		t.Fatalf("build with the tag crash: %v\n%s", err, out)
	}
	return crashDir()
}

func crashDir() string { return filepath.Join(bin, "crash") }

var buildCrash = sync.OnceValues(func() ([]byte, error) {
	build := exec.Command("go", "build", "-tags", "crash", "-ldflags", "-s -w", "-o", crashDir()+"/", "./cmd/jobd", "./cmd/jobd-shim")
	build.Dir = filepath.Join("..", "..")
	return build.CombinedOutput()
})

// startMatrix starts a daemon that can be told where to die, with its root below a directory.
func startMatrix(t *testing.T, d *daemon, dir string) *matrix {
	t.Helper()
	control := t.TempDir()
	d.env = append(d.env, "JOBD_CRASH="+control)
	return &matrix{crashing: startCrashingIn(t, d, dir), control: control}
}

// chosen returns those of all that JOBD_CRASH_MATRIX asks for: all of them, those of the points that begin so, or few if it is not set.
func chosen[T any](all, few []T, point func(T) string) []T {
	switch only := os.Getenv("JOBD_CRASH_MATRIX"); only {
	case "":
		return few
	case "all":
		return all
	default:
		return slices.DeleteFunc(slices.Clone(all), func(of T) bool { return !strings.HasPrefix(point(of), only) })
	}
}

// arm sets the point, and the pass of it, at which the daemon dies, or a shard where the point is one of the shards'.
func (c *matrix) arm(point string, times int) {
	c.t.Helper()
	fresh := filepath.Join(c.control, "new")
	if err := os.WriteFile(fresh, fmt.Appendf(nil, "%s %d", point, times), 0o600); err != nil {
		c.t.Fatal(err)
	}
	if err := os.Rename(fresh, filepath.Join(c.control, "armed")); err != nil {
		c.t.Fatal(err)
	}
}

// disarm takes the order back, and reports whether anything has died of it.
func (c *matrix) disarm() bool {
	_ = os.Remove(filepath.Join(c.control, "armed"))
	return os.Remove(filepath.Join(c.control, "fired")) == nil
}

// passed returns how often each point was passed.
func (c *matrix) passed() map[string]int {
	c.t.Helper()
	f, err := os.Open(filepath.Join(c.control, "passed"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	points := map[string]int{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		points[lines.Text()]++
	}
	return points
}

// round runs the Jobs, calls underWay once they are under way, and checks all that can be seen of them, and that
// nothing is left on the host. Lossy says that a shard was killed, so that a container may be counted without having
// been run; none is ever run without being counted.
func (c *matrix) round(underWay func(), lossy bool) {
	c.t.Helper()
	out := c.t.TempDir()
	manifest := strings.NewReplacer(
		"IGNORE", `podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}`,
		"ENV", `env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]`,
		"NOTE ", `echo run >> /out/$POD.`,
		"OUT", `{name: out, mountPath: /out}`,
		"NOTES", `{name: out, hostPath: {path: `+out+`}}`,
		"PORT", c.port, "PULLED", c.pulled,
	).Replace(crashJobs)
	c.until("the manifests are taken", func() error {
		said, err := c.try("jobctl", []byte(manifest), "apply", "-f", "-")
		if err != nil {
			return fmt.Errorf("%w: %s", err, said)
		}
		return nil
	})
	if underWay != nil {
		c.until("pods run, one of them with a sidecar", func() error {
			if sidecars, _ := filepath.Glob(filepath.Join(out, "*.side")); len(sidecars) == 0 {
				return errors.New("it does not yet")
			}
			return nil
		})
		underWay()
	}
	jobs := map[string]batchv1.Job{}
	c.until("the Jobs are complete", func() error {
		list, err := c.BatchV1().Jobs("default").List(c.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, j := range list.Items {
			if failed := condition(&j, batchv1.JobFailed); failed != nil {
				c.t.Fatalf("job %s has failed: %s: %s\njobd said:\n%s", j.Name, failed.Reason, failed.Message, c.output)
			}
			if condition(&j, batchv1.JobComplete) == nil {
				return fmt.Errorf("%s: %+v", j.Name, j.Status)
			}
			jobs[j.Name] = j
		}
		return nil
	})
	for name, want := range map[string][2]int32{"plain": {1, 0}, "never": {1, 1}, "onfailure": {1, 0}, "whole": {1, 0}, "indexed": {3, 0}} {
		// A failure that is lost with its shard does not count.
		if got := jobs[name].Status; got.Succeeded != want[0] || got.Failed != want[1] && !(lossy && got.Failed < want[1]) {
			c.t.Errorf("%s: %d succeeded, %d failed; want %v", name, got.Succeeded, got.Failed, want)
		}
	}
	if got := jobs["indexed"].Status.CompletedIndexes; got != "0-2" {
		c.t.Errorf("completed indexes: %q", got)
	}
	c.checkRuns(out, lossy)
	c.remove()
	c.until("the image is gone", func() error {
		said, err := c.try("jobctl", nil, "image", "remove", c.pulled)
		if err != nil && !strings.Contains(said, "not found") {
			return fmt.Errorf("%w: %s", err, said)
		}
		return nil
	})
}

// checkRuns compares what containers have noted and printed with what the API shows of them.
func (c *matrix) checkRuns(out string, lossy bool) {
	c.t.Helper()
	var pods *corev1.PodList
	c.until("the pods are listed", func() (err error) {
		pods, err = c.CoreV1().Pods("default").List(c.t.Context(), metav1.ListOptions{})
		return err
	})
	if len(pods.Items) != 8 && !lossy {
		c.t.Errorf("%d pods, want 8", len(pods.Items))
	}
	unseen := map[string]bool{}
	files, _ := os.ReadDir(out)
	for _, f := range files {
		unseen[f.Name()] = true
	}
	for _, p := range pods.Items {
		for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			name := p.Name + "." + s.Name
			delete(unseen, name)
			noted, _ := os.ReadFile(filepath.Join(out, name))
			runs, counted := strings.Count(string(noted), "run"), int(s.RestartCount)+1
			if runs > counted || runs < counted && !lossy {
				c.t.Errorf("%s was run %d times and counted %d times: %+v", name, runs, counted, s)
			}
			if lossy {
				continue
			}
			if s.State.Terminated == nil {
				c.t.Errorf("%s has not ended: %+v", name, s.State)
			}
			for attempt := range min(counted, 2) {
				var said []byte
				c.until("the log of "+name, func() (err error) {
					said, err = c.CoreV1().Pods("default").GetLogs(
						p.Name, &corev1.PodLogOptions{Container: s.Name, Previous: attempt == 1},
					).DoRaw(c.t.Context())
					return err
				})
				if string(said) != "begin\nend\n" {
					c.t.Errorf("%s, %d attempts before the last, said %q", name, attempt, said)
				}
			}
		}
	}
	if len(unseen) > 0 {
		c.t.Errorf("containers were run that no pod shows: %v", slices.Collect(maps.Keys(unseen)))
	}
}

// moment says when something crashes: at which point, and on which pass of it.
type moment struct {
	point string
	times int
}

// momentsOf chooses among n passes of a point, at most so many.
func momentsOf(point string, n, most int) (moments []moment) {
	most = min(n, most)
	for i := range most {
		moments = append(moments, moment{point, 1 + i*n/most})
	}
	return moments
}

// TestCrashMatrix kills the daemon, or a shard, at each point in the life of pods, and on several of its passes, with
// JOBD_CRASH_MATRIX=all. If that is the beginning of a point's name, only the points that begin so are taken; without
// it, three of them.
func TestCrashMatrix(t *testing.T) {
	t.Parallel()
	build := crashBuild(t)
	image, _ := registry.Start(t, registry.Options{}).Push(t, busyboxWith(t, "pulled"), "pulled:1")
	begin := func() *matrix {
		c := startMatrix(t, &daemon{t: t, build: build}, "/var/tmp")
		c.port, c.pulled = strconv.Itoa(20000+rand.IntN(10000)), image
		return c
	}
	c := begin()
	c.round(nil, false)
	passed := c.passed()
	c.round(func() { c.killShards(); c.kill(); c.serve() }, true)
	for point := range c.passed() {
		if _, ok := passed[point]; !ok {
			passed[point] = 1 // part of what follows a crash
		}
	}
	page, err := os.ReadFile("CRASHES.md")
	if err != nil {
		t.Fatal(err)
	}
	var moments []moment
	for _, point := range slices.Sorted(maps.Keys(passed)) {
		if !strings.Contains(string(page), "\n| "+point+" |") {
			t.Errorf("CRASHES.md has no row for %s", point)
		}
		n, most := passed[point], 2
		switch {
		case strings.HasPrefix(point, "pass."):
			n, most = n*3/4, 10 // each pass is different, and their number varies
		case strings.HasPrefix(point, "shard."):
			n = (n + 1) / 2 // for one of two shards
		}
		moments = append(moments, momentsOf(point, n, most)...)
	}
	t.Logf("%d points, %d moments", len(passed), len(moments))
	// Before a container is known to run, before its end is known, and before what is stored takes effect.
	few := []moment{{"container.created", 2}, {"exit.observed", 4}, {"pass.stored", 3}}
	moments = chosen(moments, few, func(m moment) string { return m.point })
	table := ""
	for _, m := range moments {
		if c == nil {
			c = begin() // it is to outlive the subtest
		}
		began, reached := time.Now(), false
		ok := t.Run(fmt.Sprintf("%s/%d", m.point, m.times), func(t *testing.T) {
			c.t = t
			var underWay func()
			switch {
			case strings.HasPrefix(m.point, "recover."), m.point == "unpinned.ns-prepared": // of what was prepared before a kill
				underWay = func() { c.kill(); c.arm(m.point, m.times); c.launch() }
			case strings.HasPrefix(m.point, "shard.recover."), strings.HasPrefix(m.point, "spawn."):
				underWay = func() { c.arm(m.point, m.times); c.killShards() }
			case strings.HasPrefix(m.point, "pins."): // where nothing is pinned that an earlier one has left
				_ = c.process.Process.Signal(syscall.SIGTERM)
				<-c.ended
				c.arm(m.point, m.times)
				c.launch()
			default:
				c.arm(m.point, m.times)
			}
			c.round(underWay, strings.HasPrefix(m.point, "shard.") || strings.HasPrefix(m.point, "spawn."))
			reached = c.disarm()
		})
		c.t = t
		result := "ok"
		switch {
		case !ok:
			result, c = "FAILED", nil
		case !reached:
			result = "not reached"
		}
		table += fmt.Sprintf("%-32s %4d of %4d  %-11s %.1fs\n", m.point, m.times, passed[m.point], result, time.Since(began).Seconds())
	}
	t.Logf("results:\n%s", table)
}
