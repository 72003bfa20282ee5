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
