package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hammerJobs run pods one after the other and many at a time, and indexes of which every third fails in its first run.
// Each pod notes its runs on the host, in a file of its name.
const hammerJobs = `
apiVersion: batch/v1
kind: Job
metadata: {name: row, annotations: {jobd.dev/backoff-cap: 5s}}
spec:
  completions: MANY
  parallelism: 1
  backoffLimit: 10000
  IGNORE
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: c, image: "busybox:1.36", command: [sh, -c, "echo run >> /out/$HOSTNAME"], volumeMounts: [OUT]}
      volumes: [NOTES]
---
apiVersion: batch/v1
kind: Job
metadata: {name: wide, annotations: {jobd.dev/backoff-cap: 5s}}
spec:
  completions: MANY
  parallelism: WIDE
  backoffLimit: 10000
  IGNORE
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: c, image: "busybox:1.36", command: [sh, -c, "echo run >> /out/$HOSTNAME; sleep 0.3"], volumeMounts: [OUT, {name: e, mountPath: /e}]}
      volumes: [NOTES, {name: e, emptyDir: {}}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: indexed, annotations: {jobd.dev/backoff-cap: 5s}}
spec:
  completions: WIDE
  parallelism: WIDE
  completionMode: Indexed
  backoffLimit: 10000
  IGNORE
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: c, image: "busybox:1.36", env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}], command: [sh, -c, "echo run >> /out/$POD; sleep 0.1; [ $((JOB_COMPLETION_INDEX % 3)) -gt 0 ] || [ $(ls /out/indexed-$JOB_COMPLETION_INDEX-* | wc -l) -gt 1 ]"], volumeMounts: [OUT]}
      volumes: [NOTES]
`

// hammer is a daemon that is killed at random, and so are its shards and containers.
type hammer struct {
	*crashing
	random *rand.Rand
	next   time.Time
	kills  map[string]int
}

// strike kills something if it is time to.
func (h *hammer) strike() {
	if time.Now().Before(h.next) {
		return
	}
	h.next = time.Now().Add(time.Duration(h.random.IntN(1500)) * time.Millisecond)
	switch h.random.IntN(4) {
	case 0:
		if h.ready() == nil { // only once it has started, or there would be no progress
			h.kill()
			h.kills["daemon"]++
		}
	case 1:
		if shards := h.shards(); len(shards) > 0 {
			_ = syscall.Kill(shards[h.random.IntN(len(shards))], syscall.SIGKILL)
			h.kills["shard"]++
		}
	default:
		if inits := h.inits(); len(inits) > 0 {
			_ = syscall.Kill(inits[h.random.IntN(len(inits))], syscall.SIGKILL)
			h.kills["container"]++
		}
	}
}

// inits returns the first processes of the containers.
func (h *hammer) inits() (pids []int) {
	files, _ := filepath.Glob("/sys/fs/cgroup/*/" + h.name() + "/*/cgroup.procs")
	more, _ := filepath.Glob("/sys/fs/cgroup/" + h.name() + "/*/cgroup.procs")
	for _, f := range append(files, more...) {
		if strings.Contains(f, "/shard-") {
			continue
		}
		content, _ := os.ReadFile(f)
		first, _, _ := bytes.Cut(content, []byte("\n"))
		if pid, err := strconv.Atoi(string(first)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// round runs the Jobs under the hammer and checks that each pod was run once, and is counted as it ended.
func (h *hammer) round(many, wide int) {
	h.t.Helper()
	out := h.t.TempDir()
	h.apply(strings.NewReplacer(
		"IGNORE", `podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}`,
		"MANY", strconv.Itoa(many), "WIDE", strconv.Itoa(wide),
		"OUT", `{name: out, mountPath: /out}`,
		"NOTES", `{name: out, hostPath: {path: `+out+`}}`,
	).Replace(hammerJobs))
	var jobs *batchv1.JobList
	for last := int32(-1); ; {
		h.until("more pods succeed", func() (err error) {
			h.strike()
			if jobs, err = h.BatchV1().Jobs("default").List(h.t.Context(), metav1.ListOptions{}); err != nil {
				return err
			}
			succeeded := int32(0)
			for _, j := range jobs.Items {
				succeeded += j.Status.Succeeded
			}
			if succeeded <= last {
				return fmt.Errorf("%d have", succeeded)
			}
			last = succeeded
			return nil
		})
		if last == int32(2*many+wide) {
			break
		}
	}
	h.until("the Jobs are complete", func() (err error) {
		if jobs, err = h.BatchV1().Jobs("default").List(h.t.Context(), metav1.ListOptions{}); err != nil {
			return err
		}
		for _, j := range jobs.Items {
			if condition(&j, batchv1.JobComplete) == nil {
				return errors.New(j.Name)
			}
		}
		return nil
	})
	for _, j := range jobs.Items {
		pods := h.pods(j.Name)
		succeeded, failed := int32(0), int32(0)
		for _, p := range pods {
			noted, _ := os.ReadFile(filepath.Join(out, p.Name))
			runs := strings.Count(string(noted), "run")
			_ = os.Remove(filepath.Join(out, p.Name))
			switch {
			case p.Status.Phase == corev1.PodSucceeded:
				succeeded++
			case !disrupted(&p):
				failed++
			}
			if runs > 1 || runs == 0 && p.Status.Phase == corev1.PodSucceeded {
				h.t.Errorf("%s is %s and was run %d times", p.Name, p.Status.Phase, runs)
			}
		}
		if j.Status.Succeeded != succeeded || j.Status.Failed != failed || succeeded != *j.Spec.Completions {
			h.t.Errorf("%s: %d succeeded, %d failed; its pods: %d, %d", j.Name, j.Status.Succeeded, j.Status.Failed, succeeded, failed)
		}
		if want := fmt.Sprintf("0-%d", wide-1); j.Name == "indexed" && j.Status.CompletedIndexes != want {
			h.t.Errorf("completed indexes: %s, want %s", j.Status.CompletedIndexes, want)
		}
	}
	if rest, _ := os.ReadDir(out); len(rest) > 0 {
		h.t.Errorf("%d pods were run that nobody shows, %s for one", len(rest), rest[0].Name())
	}
	h.remove()
}

func disrupted(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// use returns how many files the daemon and its shards have open, and how much memory is theirs alone, in KiB.
func (h *hammer) use() (files, memory int) {
	for _, pid := range append(h.shards(), h.process.Process.Pid) {
		dir := fmt.Sprintf("/proc/%d", pid)
		open, _ := os.ReadDir(dir + "/fd")
		files += len(open)
		status, _ := os.ReadFile(dir + "/status")
		for line := range strings.Lines(string(status)) {
			if fields := strings.Fields(line); fields[0] == "RssAnon:" {
				kib, _ := strconv.Atoi(fields[1])
				memory += kib
			}
		}
	}
	return files, memory
}

// TestCrashHammer runs pods one after the other and many at a time while the daemon, its shards and containers are
// killed at random: a few pods, or with JOBD_CRASH_HAMMER=10m rounds of 500 in a row and 50 at a time for that long.
func TestCrashHammer(t *testing.T) {
	t.Parallel()
	needContainers(t)
	many, wide, rounds, seed := 20, 10, 1, uint64(1)
	length, err := time.ParseDuration(os.Getenv("JOBD_CRASH_HAMMER"))
	if err == nil {
		many, wide, rounds, seed = 500, 50, 1000, uint64(time.Now().UnixNano())
	}
	if given, err := strconv.ParseUint(os.Getenv("JOBD_HAMMER_SEED"), 10, 64); err == nil {
		seed = given
	}
	t.Logf("JOBD_HAMMER_SEED=%d", seed)
	h := &hammer{
		crashing: startCrashing(t, &daemon{t: t, build: bin}),
		random:   rand.New(rand.NewPCG(seed, 0)),
		kills:    map[string]int{},
	}
	began := time.Now()
	files, memory := 0, 0
	for round := range rounds {
		if round > 0 && time.Since(began) > length {
			break
		}
		h.round(many, wide)
		h.kill()
		h.serve() // so that the daemon has just started when its files are counted, while the shards go on
		nowFiles, nowMemory := h.use()
		t.Logf("round %d: %d pods, killed %v so far; %d files open, %d MiB", round, 2*many+wide, h.kills, nowFiles, nowMemory>>10)
		if round == 0 {
			files, memory = nowFiles, nowMemory
			continue
		}
		// It may take a while until all that was killed is cleaned up.
		h.eventually("files and memory are as after the first round", func() error {
			if nowFiles, nowMemory := h.use(); nowFiles > files+20 || nowMemory > 2*memory {
				return fmt.Errorf("%d files open and %d MiB, after the first round %d and %d", nowFiles, nowMemory>>10, files, memory>>10)
			}
			return nil
		})
	}
}
