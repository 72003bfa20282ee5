package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

func timeout(e *examples) {
	e.create("pi-with-timeout.yaml", slowPi, quickPi, "activeDeadlineSeconds: 100", "activeDeadlineSeconds: 1000")
	e.create("pi-with-timeout.yaml", piCommand, neverEnds, "name: pi-with-timeout", "name: too-late", "activeDeadlineSeconds: 100", "activeDeadlineSeconds: 1")
	e.complete("pi-with-timeout")
	e.wantLogs("pi-with-timeout", fiftyOfPi)
	e.failed("too-late", batchv1.JobReasonDeadlineExceeded)
	e.noPods("too-late")
}

func backoffLimitPerIndex(e *examples) {
	s := e.failed("job-backoff-limit-per-index-example", batchv1.JobReasonFailedIndexes).Status
	if s.CompletedIndexes != "1,3,5,7,9" || s.FailedIndexes == nil || *s.FailedIndexes != "0,2,4,6,8" || s.Succeeded != 5 || s.Failed != 10 {
		e.t.Errorf("%+v", s)
	}
	if c := s.Conditions; len(c) != 2 || c[0].Type != batchv1.JobFailureTarget || c[0].Reason != batchv1.JobReasonFailedIndexes ||
		c[1].Type != batchv1.JobFailed {
		e.t.Errorf("conditions %+v", c)
	}
}

func podFailurePolicy(e *examples) {
	const name, evicted = "job-pod-failure-policy-example", "evicted"
	e.create("pod-failure-policy.yaml")
	e.create("pod-failure-policy.yaml", "name: "+name, "name: "+evicted, "sleep 5", "trap 'exit 3' TERM && { sleep 3600 & wait; }")
	victim := e.running(evicted, 3)[0].Name
	e.eventually("it is ready for the signal", func() error {
		if got := e.kubectl("logs", victim); got != "Hello world!\n" {
			return fmt.Errorf("it said %q", got)
		}
		return nil
	})
	e.kubectlWith(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"`+victim+`"}}`,
		"create", "--raw", "/api/v1/namespaces/default/pods/"+victim+"/eviction", "-f", "-")
	e.eventually("another pod runs in its place", func() error {
		for _, p := range e.running(evicted, 3) {
			if p.Name == victim {
				return errors.New("it is still there")
			}
		}
		return nil
	})
	if s := e.until(evicted, "three are active", func(j *batchv1.Job) bool { return j.Status.Active == 3 }).Status; s.Failed != 0 {
		e.t.Errorf("the evicted pod was counted: %+v", s)
	}
	e.kubectl("delete", "job", evicted, "--wait=false")

	job := e.failed(name, batchv1.JobReasonPodFailurePolicy)
	if c := condition(job, batchv1.JobFailed); !strings.Contains(c.Message, "failed with exit code 42 matching FailJob rule at index 0") {
		e.t.Errorf("message %q", c.Message)
	}
	if job.Status.Failed != 3 || job.Status.Active != 0 || *job.Status.Terminating != 0 {
		e.t.Errorf("%+v", job.Status)
	}
	e.running(name, 0)
}

func successPolicy(e *examples) {
	e.create("success-policy.yaml")
	job := e.complete("job-success-policy")
	c := condition(job, batchv1.JobSuccessCriteriaMet)
	if c == nil || c.Reason != batchv1.JobReasonSuccessPolicy || c.Message != "Matched rules at index 0" ||
		condition(job, batchv1.JobComplete).Reason != batchv1.JobReasonSuccessPolicy {
		e.t.Errorf("conditions %+v", job.Status.Conditions)
	}
	if s := job.Status; s.Active != 0 || *s.Terminating != 0 || s.CompletedIndexes != "2" && s.CompletedIndexes != "3" && s.CompletedIndexes != "2,3" {
		e.t.Errorf("%+v", s)
	}
	e.running("job-success-policy", 0)
}

func suspended(e *examples) {
	e.create("suspended.yaml")
	suspended := func(j *batchv1.Job) bool {
		return condition(j, batchv1.JobSuspended) != nil && j.Status.StartTime == nil && *j.Status.Terminating == 0
	}
	e.until("myjob", "suspended from the start", suspended)
	if pods := e.pods("myjob"); len(pods) > 0 {
		e.t.Errorf("%d pods were made", len(pods))
	}
	e.kubectl("patch", "job/myjob", "--type=strategic", "--patch", `{"spec":{"suspend":false}}`)
	e.running("myjob", 1)
	job := e.until("myjob", "resumed", func(j *batchv1.Job) bool {
		return j.Status.StartTime != nil && condition(j, batchv1.JobSuspended) == nil
	})
	if c := job.Status.Conditions; len(c) != 1 || c[0].Type != batchv1.JobSuspended || c[0].Status != corev1.ConditionFalse || c[0].Reason != "JobResumed" {
		e.t.Errorf("conditions %+v", c)
	}
	e.kubectl("patch", "job/myjob", "--type=strategic", "--patch", `{"spec":{"suspend":true}}`)
	job = e.until("myjob", "suspended again", suspended)
	if s := job.Status; s.Active != 0 || s.Failed != 0 || s.Succeeded != 0 {
		e.t.Errorf("%+v", s)
	}
	e.noPods("myjob")
	e.contains(
		"describe", e.kubectl("describe", "job", "myjob"), "Suspended", "Job suspended", "SuccessfulCreate", "SuccessfulDelete",
		"Resumed", "Job resumed",
	)
}

func replacementPolicy(e *examples) {
	const name = "replace-when-failed"
	e.create("pod-replacement-policy.yaml", "sleep 3;", "until [ -e /tmp/seen ]; do sleep 0.1; done;")
	pod := e.running(name, 1)[0].Name
	e.eventually("it is ready for the signal", func() error {
		if got := e.kubectl("logs", pod); got != "ready\n" {
			return fmt.Errorf("it said %q", got)
		}
		return nil
	})
	e.kubectl("delete", "pod", pod, "--wait=false")
	e.until(name, "terminating, and no replacement", func(j *batchv1.Job) bool {
		return *j.Status.Terminating == 1 && j.Status.Active == 0 && j.Status.Failed == 0
	})
	if pods := e.pods(name); len(pods) != 1 {
		e.t.Errorf("%d pods while it ends", len(pods))
	}
	e.kubectl("exec", pod, "--", "touch", "/tmp/seen")
	e.until(name, "replaced", func(j *batchv1.Job) bool {
		return *j.Status.Terminating == 0 && j.Status.Active == 1 && j.Status.Failed == 1
	})
	e.kubectl("delete", "job", name, "--wait=false")
}

func elastic(e *examples) {
	scale := func(n int) {
		e.kubectl("patch", "job/elastic", "-p", fmt.Sprintf(`{"spec":{"parallelism":%d,"completions":%d}}`, n, n))
	}
	e.create("elastic.yaml")
	e.running("elastic", 3)
	scale(5)
	if got := indexesOf(e.running("elastic", 5)); !slices.Equal(got, []string{"0", "1", "2", "3", "4"}) {
		e.t.Errorf("scaled up, there are %v", got)
	}
	scale(2)
	job := e.until("elastic", "scaled down", func(j *batchv1.Job) bool { return j.Status.Active == 2 && *j.Status.Terminating == 0 })
	if got := indexesOf(e.running("elastic", 2)); !slices.Equal(got, []string{"0", "1"}) || job.Status.Failed != 0 {
		e.t.Errorf("scaled down, there are %v; failed %d", got, job.Status.Failed)
	}
	e.kubectl("delete", "job", "elastic", "--wait=false")
}
