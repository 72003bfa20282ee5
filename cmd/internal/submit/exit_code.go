package submit

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/cmd/internal/progress"
)

// failures remembers which pod of a Job's present attempt was the first to fail, as pods are seen.
type failures struct {
	job *batchv1.Job
	// first is the failure that came first, nil if there was none. The others are not kept: a Job may have very many, and each is
	// seen many times.
	first *failure
}

// failure is the failure of a pod, or of a container that was started again.
type failure struct {
	pod       string
	container string // empty if no container failed
	code      int32  // 0 if no container failed
	deadline  bool   // the pod's own has passed
	ended     bool   // somebody had ended the pod
	at        time.Time
}

// newFailures returns the failures of a Job, of which none has been seen.
func newFailures(j *batchv1.Job) *failures { return &failures{job: j} }

// see takes in a pod as it is now.
func (f *failures) see(p *corev1.Pod) {
	if batch.PodAttempt(p.Annotations) != batch.AttemptOf(f.job.Annotations) {
		return // of an attempt before the Job was retried
	}
	if p.Status.Phase == corev1.PodFailed {
		if !ignored(f.job, p) {
			f.add(podFailure(p))
		}
		return
	}
	// Containers that are started again in their pod count for backoffLimit too (restartPolicy OnFailure).
	for c := range podspec.Statuses(p) {
		t := c.State.Terminated
		if t == nil {
			t = c.LastTerminationState.Terminated
		}
		if t != nil && podspec.HasFailed(&p.Spec, c.Name, t) && p.Spec.RestartPolicy == corev1.RestartPolicyOnFailure {
			f.add(failure{pod: p.Name, container: c.Name, code: t.ExitCode, at: t.FinishedAt.Time})
		}
	}
}

func (f *failures) add(next failure) {
	if f.first == nil || next.before(f.first) {
		f.first = &next
	}
}

// before reports whether a failure came before another one. Of a container that never started, since its pod was being ended, it is
// not known when it ended: that was not what came first. The API has times in whole seconds: of the same second, a pod that failed of
// itself came before one that was ended, which the Job does with the others once one has failed, and else the one that was seen first.
func (x failure) before(y *failure) bool {
	if x.at.IsZero() || y.at.IsZero() {
		return !x.at.IsZero()
	}
	return x.at.Before(y.at) || x.at.Equal(y.at) && !x.ended && y.ended
}

func podFailure(p *corev1.Pod) failure {
	out := failure{pod: p.Name, deadline: p.Status.Reason == "DeadlineExceeded", ended: p.DeletionTimestamp != nil}
	for s := range podspec.Statuses(p) {
		if t := s.State.Terminated; t != nil && t.FinishedAt.After(out.at) {
			out.at = t.FinishedAt.Time
		}
	}
	if c := progress.FailedContainer(p); c != nil {
		out.container, out.code = c.Name, c.State.Terminated.ExitCode
	}
	return out
}

// Result is how a Job has ended, for a command.
type Result struct {
	// Code is the exit code: 0 for a Job that is complete; ExitDeadline if its deadline has passed; else that of the
	// container that failed in the pod that was the first to count as a failure, or ExitFailed if there is none.
	Code int32
	// Pod and Container are those that Code is from; empty if it is from none.
	Pod, Container string
	// Reason and Message are those of the Job's condition.
	Reason, Message string
}

// result returns how a finished Job has ended.
func (f *failures) result(j *batchv1.Job) Result {
	end := batch.End(&j.Status)
	if end == nil {
		return Result{Code: ExitCannot, Message: "the Job has not finished"}
	}
	r := Result{Reason: end.Reason, Message: end.Message}
	if end.Type == batchv1.JobComplete {
		return r
	}
	if end.Reason == batchv1.JobReasonDeadlineExceeded {
		r.Code = ExitDeadline
		return r
	}
	r.Code = ExitFailed
	if first := f.first; first != nil {
		r.Pod, r.Container = first.pod, first.container
		switch {
		case first.deadline:
			r.Code = ExitDeadline
		case first.code != 0:
			r.Code = first.code
		}
	}
	return r
}

// sentence says for people how the Job has ended.
func (r Result) sentence(j *batchv1.Job) string {
	state, _, _ := progress.JobState(j)
	out := "job " + j.Name + ": " + state
	if r.Reason != "" && state == "failed" {
		out += ": " + r.Reason
		if r.Message != "" {
			out += ": " + r.Message
		}
	}
	if c := progress.CountsOf(j); state == "complete" && (c.Completions > 1 || c.Failed > 0) {
		c.Active = 0
		out += ": " + c.String()
	}
	if r.Container != "" {
		out += fmt.Sprintf(" (exit code %d of container %s in pod %s)", r.Code, r.Container, r.Pod)
	}
	return out
}

// ignored reports whether the rule of the Job's podFailurePolicy that applies to a failed pod lets it not count as a
// failure (spec.podFailurePolicy, action Ignore).
func ignored(j *batchv1.Job, p *corev1.Pod) bool {
	i := batch.FailureRule(j.Spec.PodFailurePolicy, batch.ExitsOf(p), p.Status.Conditions)
	return i >= 0 && j.Spec.PodFailurePolicy.Rules[i].Action == batchv1.PodFailurePolicyActionIgnore
}
