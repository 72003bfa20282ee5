package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jobd/jobd/daemon/simulation"
)

const simulatedJob = `
apiVersion: v1
kind: ConfigMap
metadata: {name: beside}
---
apiVersion: batch/v1
kind: Job
metadata: {name: j, annotations: {jobd.dev/backoff-base: 2s}}
spec:
  completions: 4
  parallelism: 4
  completionMode: Indexed
  backoffLimitPerIndex: 1
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: i}]
`

// It needs no daemon: nothing listens on the socket that it is given.
func TestSimulateWithoutADaemon(t *testing.T) {
	jobctl := func(in string, args ...string) (string, int) {
		cmd := exec.Command(os.Args[0], append([]string{"simulate", "-f", "-"}, args...)...)
		cmd.Env = append(os.Environ(), "JOBCTL_TEST_RUN=1", "HOME="+t.TempDir(), "JOBD_SOCKET=/nonexistent")
		return run(t, cmd, in)
	}
	out, code := jobctl(simulatedJob, "--pod", "index=3: exit=1 after=2s")
	for _, words := range []string{
		"pods/j-3-00004 ended with exit code 1", "no new pod for index 3 before 4s", "The Job is Failed after 6s (FailedIndexes)",
		"Pods created: 5, succeeded: 3, failed: 2", "Completed indexes: 0-2", "Failed indexes: 3", `jobd.dev/backoff-base="2s"`,
	} {
		if code != 0 || !strings.Contains(out, words) {
			t.Errorf("%q is not in the output (%d):\n%s", words, code, out)
		}
	}
	out, code = jobctl(simulatedJob, "-o", "json")
	var r simulation.Result
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 || !r.Finished || r.Pods != 4 || r.Status.CompletedIndexes != "0-3" {
		t.Errorf("%v (%d):\n%s", err, code, out)
	}
	for _, c := range []struct {
		in, want string
		args     []string
	}{
		{strings.Replace(simulatedJob, "parallelism", "paralelism", 1), `unknown field "spec.paralelism"`, nil},
		{strings.Replace(simulatedJob, "completions: 4", "completions: -4", 1), "spec.completions: Invalid value: -4", nil},
		{"kind: ConfigMap\napiVersion: v1\n", "neither a Job nor a CronJob", nil},
		{simulatedJob + "---" + simulatedJob, "two Jobs j", nil},
		{simulatedJob, "no Job k", []string{"--create", "k=1m"}},
		{simulatedJob, "such as urgent=1m", []string{"--create", "j"}},
		{simulatedJob, "the first Job begins", []string{"--create", "j=1m"}},
		{simulatedJob, "one of age, fair", []string{"--queue-order", "size"}},
		{"apiVersion: v1\nkind: Namespace\nmetadata: {name: team, annotations: {jobd.dev/preempt-by: freeze}}\n", `supported values: "evict", "pause"`, nil},
		{simulatedJob, "--pod: ", []string{"--pod", "exit=1"}},
		{simulatedJob, "not an amount", []string{"--allocatable", "cpu"}},
	} {
		if out, code := jobctl(c.in, c.args...); code != 1 || !strings.Contains(out, c.want) {
			t.Errorf("want %q (%d):\n%s", c.want, code, out)
		}
	}
}

// Several Jobs are played on one machine, with their priorities, and what their namespaces say.
func TestSimulateSeveralJobs(t *testing.T) {
	const manifest = `
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 10
---
apiVersion: v1
kind: Namespace
metadata: {name: default, annotations: {jobd.dev/preempt-by: pause}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: long}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i, resources: {requests: {cpu: 2}}}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: urgent}
spec: {template: {spec: {priorityClassName: high, restartPolicy: Never, containers: [{name: c, image: i, resources: {requests: {cpu: 2}}}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: last, annotations: {jobd.dev/after: urgent}}
spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i, resources: {requests: {cpu: 2}}}]}}}
`
	cmd := exec.Command(os.Args[0], "simulate", "-f", "-", "--allocatable", "cpu=2", "--create", "urgent=1m", "--pod", "job=long: after=10m",
		"--pod", "job=urgent: after=5m")
	cmd.Env = append(os.Environ(), "JOBCTL_TEST_RUN=1", "HOME="+t.TempDir(), "JOBD_SOCKET=/nonexistent")
	out, code := run(t, cmd, manifest)
	for _, words := range []string{
		"      1m0s  pods/long-00001 is paused for a pod of a higher priority (jobd.dev/preempt-by)", "      1m0s  pods/urgent-00001 started",
		"      6m0s  jobs/last begins, since it waited for urgent to complete", "      6m0s  pods/long-00001 goes on: its CPU is free again",
		"     15m0s  pods/last-00001 started", "     15m0s  jobs/long is Complete: CompletionsReached",
		"The Job long is Complete after 15m0s", "The Job urgent is Complete after 5m0s", "The Job last is Complete after 15m1s",
	} {
		if code != 0 || !strings.Contains(out, words) {
			t.Errorf("%q is not in the output (%d):\n%s", words, code, out)
		}
	}
}

// A JobSet is played group by group and attempt by attempt, beside Jobs.
func TestSimulateAJobSet(t *testing.T) {
	const manifest = `
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train}
spec:
  failurePolicy: {maxRestarts: 1}
  replicatedJobs:
  - name: data
    template: {spec: {template: {spec: {containers: [{name: c, image: i}]}}}}
  - name: workers
    replicas: 2
    dependsOn: [{name: data, status: Complete}]
    template: {spec: {backoffLimit: 0, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}
---
`
	jobctl := func(in string, args ...string) (string, int) {
		cmd := exec.Command(os.Args[0], append([]string{"simulate", "-f", "-"}, args...)...)
		cmd.Env = append(os.Environ(), "JOBCTL_TEST_RUN=1", "HOME="+t.TempDir(), "JOBD_SOCKET=/nonexistent")
		return run(t, cmd, in)
	}
	rules := []string{"--pod", "group=data: after=10s", "--pod", "job=train-workers-1 attempt=1: exit=3 after=20s", "--pod", "*: after=1m"}
	out, code := jobctl(manifest+simulatedJob, rules...)
	for _, words := range []string{
		"        0s  jobs/train-data-0 is created\n", "       10s  jobs/train-workers-1 is created\n",
		"       30s  jobsets/train begins its attempt 2: DefaultFailurePolicy: applying RestartJobSet failure policy action (first failed job: train-workers-1)",
		"       30s  jobs/train-workers-0 is deleted\n", "       30s  jobs/train-data-0 is created, attempt 2\n",
		"     1m40s  jobsets/train is Completed: AllJobsCompleted: jobset completed successfully",
		"The JobSet train is Completed after 1m40s (AllJobsCompleted). Attempts: 2, Jobs created: 6, pods: 6.",
		"Group workers: 0 ready, 2 succeeded, 0 failed.", "The Job j is Complete after 1m0s",
	} {
		if code != 0 || !strings.Contains(out, words) {
			t.Errorf("%q is not in the output (%d):\n%s", words, code, out)
		}
	}
	out, code = jobctl(manifest, append(rules, "-o", "json")...)
	var r simulation.Result
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 || r.JobResult != nil || len(r.JobSets) != 1 || !r.JobSets[0].Finished {
		t.Errorf("%v (%d):\n%s", err, code, out)
	}
	// It waits for others, and others for it.
	held := func(name, after, of string) string {
		return strings.Replace(strings.Replace(of, "metadata: {name: "+name, "metadata: {annotations: {jobd.dev/after: '"+after+"'}, name: "+name, 1),
			"spec:\n", "spec:\n  suspend: true\n", 1)
	}
	k := strings.NewReplacer("name: j,", "name: k,", "jobd.dev/backoff-base: 2s", "jobd.dev/after: jobsets/train",
		"spec:\n  completions", "spec:\n  suspend: true\n  completions")
	chain := held("train", "j:any", manifest) + k.Replace(simulatedJob) + "---\n" + simulatedJob
	out, code = jobctl(chain, rules...)
	for _, words := range []string{
		"        0s  jobsets/train waits for j to end (jobd.dev/after)", "      1m0s  jobsets/train begins, since it waited for j to end",
		"        0s  jobs/k waits for jobsets/train to complete (jobd.dev/after)", "     2m40s  jobs/k begins, since it waited for jobsets/train to complete",
	} {
		if code != 0 || !strings.Contains(out, words) {
			t.Errorf("%q is not in the output (%d):\n%s\n%s", words, code, out, chain)
		}
	}
	for _, c := range []struct{ in, want string }{
		{held("train", "jobsets/train", manifest), "has not ended: it waits for jobsets/train to complete"},
		{held("train", "never:failed", manifest), "jobsets/train waits for never to fail (jobd.dev/after); what follows is from then on"},
		{strings.Replace(manifest, "replicas: 2", "replica: 2", 1), `unknown field "spec.replicatedJobs[1].replica"`},
		{strings.Replace(manifest, "name: data, status", "name: dat, status", 1), "the JobSet is invalid"},
		{manifest + manifest, "two JobSets train"},
		{strings.Replace(manifest, "failurePolicy", "suspend: true\n  failurePolicy", 1), "it is suspended (spec.suspend)"},
		{manifest + strings.Replace(simulatedJob, "name: j,", "name: train-data-0,", 1), "there is another Job of that name"},
	} {
		if out, _ := jobctl(c.in); !strings.Contains(out, c.want) {
			t.Errorf("want %q:\n%s", c.want, out)
		}
	}
}

// The next times of a CronJob are those of the daemon, with its annotations.
func TestSimulateTheTimesOfACronJob(t *testing.T) {
	jobctl := func(in string, args ...string) (string, int) {
		cmd := exec.Command(os.Args[0], append([]string{"simulate", "-f", "-"}, args...)...)
		cmd.Env = append(os.Environ(), "JOBCTL_TEST_RUN=1", "HOME="+t.TempDir(), "JOBD_SOCKET=/nonexistent")
		return run(t, cmd, in)
	}
	const manifest = `
apiVersion: batch/v1
kind: CronJob
metadata: {name: c, annotations: {jobd.dev/jitter: 10m, jobd.dev/schedules: "30 5 * * *"}}
spec:
  schedule: "0 5 * * *"
  timeZone: Asia/Tokyo
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}}}
`
	out, code := jobctl(manifest)
	if code != 0 || strings.Count(out, " 05:00:00 JST ") < 2 || strings.Count(out, " 05:30:00 JST ") < 2 ||
		strings.Count(out, " later (jobd.dev/jitter)\n") != 5 || !strings.Contains(out, "The Job is Complete") {
		t.Errorf("%d: %s", code, out)
	}
	if out, code := jobctl(manifest, "-o", "json"); code != 0 || strings.Count(out, `"starts": `) != 5 {
		t.Errorf("%d: %s", code, out)
	}
	out, code = jobctl(strings.Replace(manifest, "10m", "ten", 1))
	if code != 1 || !strings.Contains(out, "the CronJob is invalid: metadata.annotations[jobd.dev/jitter]: Invalid value") {
		t.Errorf("%d: %s", code, out)
	}
}
