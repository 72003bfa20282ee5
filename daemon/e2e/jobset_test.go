package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

func (d *daemon) jobSet(name string) (*jobsetv1.JobSet, error) {
	out, err := d.try("jobctl", nil, "get", "jobsets", name, "-o", "json")
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	js := &jobsetv1.JobSet{}
	return js, json.Unmarshal([]byte(out), js)
}

// attemptsOf returns the Jobs of a JobSet that are there, each with its attempt.
func (d *daemon) attemptsOf(name string) []string {
	d.t.Helper()
	out := d.jobctl("get", "jobs", "-l", jobsetv1.JobSetNameKey+"="+name, "-o",
		`jsonpath={range .items[*]}{.metadata.name}:{.metadata.labels.jobset\.sigs\.k8s\.io/restart-attempt} {end}`)
	all := strings.Fields(out)
	slices.Sort(all)
	return all
}

// Two groups: the second begins when the first is ready, and its pods reach those of the first and each other by name, also before
// they are ready. A failure begins the whole anew, with a daemon that is killed in the middle of that, and each Job is there once.
func TestJobSet(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.needBridge()
	d.apply(`
apiVersion: v1
kind: ConfigMap
metadata: {name: told}
data: {fail: "yes"}
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train}
spec:
  failurePolicy: {maxRestarts: 3}
  successPolicy: {operator: All, targetReplicatedJobs: [workers]}
  coordinator: {replicatedJob: leader}
  replicatedJobs:
  - name: leader
    template:
      spec:
        completions: 1
        template:
          spec:
            terminationGracePeriodSeconds: 1
            containers:
            - {name: c, image: "busybox:1.36", command: [sh, -c, "while true; do echo from $(hostname) | nc -l -p 9000; done"]}
  - name: workers
    replicas: 2
    dependsOn: [{name: leader, status: Ready}]
    template:
      spec:
        completions: 2
        parallelism: 2
        backoffLimit: 0
        template:
          spec:
            restartPolicy: Never
            terminationGracePeriodSeconds: 1
            volumes: [{name: told, configMap: {name: told}}]
            containers:
            - name: c
              image: busybox:1.36
              volumeMounts: [{name: told, mountPath: /told}]
              env:
              - {name: LEADER, valueFrom: {fieldRef: {fieldPath: "metadata.labels['jobset.sigs.k8s.io/coordinator']"}}}
              - {name: ATTEMPT, valueFrom: {fieldRef: {fieldPath: "metadata.labels['jobset.sigs.k8s.io/restart-attempt']"}}}
              - {name: JOB, valueFrom: {fieldRef: {fieldPath: "metadata.labels['jobset.sigs.k8s.io/job-index']"}}}
              command:
              - sh
              - -c
              - |
                until nc $LEADER 9000 < /dev/null | grep from; do sleep 0.2; done
                for i in 0 1; do for j in 0 1; do until ping -c 1 -W 5 train-workers-$i-$j.train > /dev/null; do sleep 0.2; done; done; done
                echo "attempt $ATTEMPT of $JOB/$JOB_COMPLETION_INDEX sees all"
                if [ "$(cat /told/fail)" = yes ]; then [ $JOB/$JOB_COMPLETION_INDEX = 1/1 ] && exit 3; sleep 1000; fi
                sleep 2
`)
	d.eventually("the set begins again", func() error {
		js, err := d.jobSet("train")
		if err == nil && js.Status.Restarts < 1 {
			err = fmt.Errorf("%+v", js.Status)
		}
		return err
	})
	d.kill() // while pods of the first attempt end
	d.serve()
	d.apply(`{apiVersion: v1, kind: ConfigMap, metadata: {name: told}, data: {fail: "no"}}`)
	d.eventually("the set is complete", func() error {
		js, err := d.jobSet("train")
		switch {
		case err != nil:
			return err
		case js.Status.TerminalState != string(jobsetv1.JobSetCompleted):
			return fmt.Errorf("%+v", js.Status)
		}
		return nil
	})
	js, err := d.jobSet("train")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, name := range []string{"train-workers-0", "train-workers-1"} {
		want = append(want, fmt.Sprint(name, ":", js.Status.Restarts))
	}
	d.eventually("the leader is ended", func() error {
		if got := d.attemptsOf("train"); !slices.Equal(got, want) {
			return fmt.Errorf("there are %v, want %v", got, want)
		}
		return nil
	})
	out := d.jobctl("logs", "jobs/train-workers-1")
	if !strings.Contains(out, "from train-leader-0-0") || !strings.Contains(out, fmt.Sprintf("attempt %d of 1/1 sees all", js.Status.Restarts)) {
		t.Errorf("it prints %s", out)
	}
	if table := d.jobctl("get", "jobsets"); !strings.Contains(table, "TERMINALSTATE") || !strings.Contains(table, "Completed") {
		t.Errorf("the table is %s", table)
	}
	if explained := d.jobctl("explain", "jobset.spec.failurePolicy.maxRestarts"); !strings.Contains(explained, "maxRestarts <integer>") {
		t.Errorf("it is explained as %s", explained)
	}
	begin := time.Now()
	d.jobctl("delete", "jobset", "train")
	d.eventually("nothing is left", func() error {
		out, err := d.try("jobctl", nil, "get", "jobs,pods,services", "-l", jobsetv1.JobSetNameKey+"=train", "-o", "name")
		if err == nil && strings.Contains(out, "/") {
			err = fmt.Errorf("after %v there are %s", time.Since(begin), out)
		}
		return err
	})
}

// What jobctl says and does of a JobSet as a whole: why, logs, follow, submit, wait, suspend, resume and retry.
func TestCommandsOfJobSets(t *testing.T) {
	t.Parallel()
	d := start(t)
	// The first group waits for a ConfigMap, the second for the first, and fails; then a second attempt does.
	steps := `
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: steps}
spec:
  suspend: true
  failurePolicy: {maxRestarts: 1}
  network: {enableDNSHostnames: false}
  replicatedJobs:
  - name: prepare
    template:
      spec:
        template:
          spec:
            containers:
            - {name: c, image: "busybox:1.36", command: [sh, -c, echo prepared], envFrom: [{configMapRef: {name: input}}]}
  - name: work
    replicas: 2
    dependsOn: [{name: prepare, status: Complete}]
    template:
      spec:
        completions: 2
        parallelism: 2
        backoffLimit: 0
        template:
          spec:
            restartPolicy: Never
            terminationGracePeriodSeconds: 1
            containers:
            - name: c
              image: busybox:1.36
              env: [{name: JOB, valueFrom: {fieldRef: {fieldPath: "metadata.labels['jobset.sigs.k8s.io/job-index']"}}}]
              command: [sh, -c, 'echo working; [ $JOB/$JOB_COMPLETION_INDEX != 1/1 ] || { sleep 2; exit 7; }; sleep 1000']
`
	why := func(object string, wanted ...string) {
		t.Helper()
		d.eventually("why "+object, func() error {
			said := strings.Join(strings.Fields(d.jobctl("why", object)), " ")
			for _, want := range wanted {
				if !strings.Contains(said, want) {
					return fmt.Errorf("it says %s, and not %s", said, want)
				}
			}
			return nil
		})
	}
	d.apply(steps)
	why("jobsets/steps", "jobsets/steps: is suspended.", "$ jobctl resume jobsets/steps")
	why("jobs/steps-prepare-0", "Its JobSet steps decides about that.", "jobsets/steps: controls this Job, as number 0 of its group prepare.")
	if out, err := d.try("jobctl", nil, "resume", "jobs/steps-prepare-0"); err == nil || !strings.Contains(out, "jobctl resume jobsets/steps") {
		t.Errorf("one of its Jobs is resumed: %s", out)
	}
	if out := d.jobctl("resume", "jobsets/steps"); out != "jobset.jobset.x-k8s.io/steps resumed\n" {
		t.Errorf("it says %s", out)
	}
	why("jobsets/steps", "Job steps-prepare-0 waits", "ConfigMap input")
	if out := d.jobctl("suspend", "jobset", "steps"); out != "jobset.jobset.x-k8s.io/steps suspended\n" {
		t.Errorf("it says %s", out)
	}
	d.jobctl("delete", "jobset", "steps")

	steps = strings.Replace(steps, "  suspend: true\n", "", 1)
	followed := d.jobctlWith("submit", "--progress", "plain", "-f", "-")
	type end struct {
		out, err string
		code     int
	}
	ended := make(chan end, 1)
	go func() {
		out, errOut, code := exitOf(t, followed, steps)
		ended <- end{out, errOut, code}
	}()
	d.eventually("it is there", func() error {
		_, err := d.jobSet("steps")
		return err
	})
	why("jobsets/steps", "The group work waits until all Jobs of prepare are complete: 0 of 1 are.", "jobctl why jobs/steps-prepare-0")
	waited := make(chan end, 1)
	go func() {
		out, errOut, code := exitOf(t, d.jobctlWith("wait", "jobsets/steps", "--for=complete", "--timeout=5m"), "")
		waited <- end{out, errOut, code}
	}()
	d.apply(`{apiVersion: v1, kind: ConfigMap, metadata: {name: input}}`)
	e := <-ended
	if e.code != 7 || !strings.Contains(e.err, "jobset steps: attempt 2: applying RestartJobSet failure policy action (first failed job: steps-work-1)") ||
		!strings.Contains(e.err, "jobset steps: failed: ReachedMaxRestarts") || !strings.Contains(e.err, "$ jobctl why jobsets/steps") {
		t.Errorf("submit ends with %d: %s", e.code, e.err)
	}
	for _, want := range []string{
		"[prepare/0] prepared\n", "[work/0/0] working\n", "[work/1/1] working\n", "[prepare/0 attempt=2] prepared\n", "[work/1/0 attempt=2] working\n",
	} {
		if strings.Count(e.out, want) != 1 {
			t.Errorf("submit prints %q %d times: %s", want, strings.Count(e.out, want), e.out)
		}
	}
	if e := <-waited; e.code != 1 || !strings.Contains(e.err, "jobset.jobset.x-k8s.io/steps has failed, and will not be complete: ReachedMaxRestarts") {
		t.Errorf("wait ends with %d: %s%s", e.code, e.out, e.err)
	}
	why("jobsets/steps", "has failed (ReachedMaxRestarts)", "Its Job steps-work-1 failed, and its maxRestarts of 1 allows no more attempts: it has begun anew once.",
		"exit code 7", "This is attempt 2.")
	out := d.jobctl("logs", "jobsets/steps")
	if !strings.HasPrefix(out, "[prepare/0 attempt=2] prepared\n") || !strings.Contains(out, "[work/1/1 attempt=2] working\n") {
		t.Errorf("logs prints %s", out)
	}
	if again := d.jobctl("logs", "-f", "jobsets/steps"); strings.Count(again, "\n") != strings.Count(out, "\n") {
		t.Errorf("logs -f prints %s, logs %s", again, out)
	}
	if past := d.jobctl("history", "jobsets/steps"); strings.Count(past, "steps-work-1") != 2 || strings.Count(past, "Complete") != 2 {
		t.Errorf("the history is %s", past)
	}
	for _, of := range []string{"jobs/steps-work-1", "jobsets/steps"} {
		if out, err := d.try("jobctl", nil, "retry", of); err == nil || !strings.Contains(out, "jobctl submit --replace -f FILE") {
			t.Errorf("retry of %s says %s", of, out)
		}
	}
	// Which works.
	done := strings.NewReplacer("exit 7", "exit 0", "sleep 1000", "true").Replace(steps)
	if out, errOut, code := exitOf(t, d.jobctlWith("submit", "--replace", "-f", "-"), done); code != 0 || !strings.Contains(errOut, "jobset steps: complete") {
		t.Errorf("submit --replace ends with %d: %s%s", code, out, errOut)
	}
	if _, errOut, code := exitOf(t, d.jobctlWith("follow", "jobsets/steps"), ""); code != 0 {
		t.Errorf("follow ends with %d: %s", code, errOut)
	}
	d.jobctl("wait", "jobsets/steps")
	d.jobctl("wait", "jobsets/steps", "--for=complete")
}
