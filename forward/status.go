package forward

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/conditions"
)

// Statuses returns what is to be written, one after the other, so that a Job has the status of the one there; nothing if it has. It is one
// status, unless the Job there was suspended and resumed, and nobody here has seen that: a start time may only change, unless the Job is
// suspended here, together with the end of a suspension.
func Statuses(l, r *batchv1.Job, now time.Time) []batchv1.JobStatus {
	last := *r.Status.DeepCopy()
	restarts := l.Status.StartTime != nil && !l.Status.StartTime.Equal(last.StartTime) && !ptr.Deref(l.Spec.Suspend, false)
	if restarts && is(r, batchv1.JobSuspended) {
		restarts, last.StartTime = false, l.Status.StartTime
	}
	switch {
	case equality.Semantic.DeepEqual(l.Status, last):
		return nil
	case !restarts || is(l, batchv1.JobSuspended):
		return []batchv1.JobStatus{last}
	}
	first := *l.Status.DeepCopy()
	first.Active, first.Ready = 0, nil
	setCondition(&first, batchv1.JobSuspended, "JobSuspended", "It was suspended in its cluster", now)
	return []batchv1.JobStatus{first, last}
}

// saying returns the status of a Job with what the forwarder itself has to say, which replaces what it has said before.
func saying(l *batchv1.Job, t batchv1.JobConditionType, reason, message string, now time.Time) batchv1.JobStatus {
	s := *l.Status.DeepCopy()
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c batchv1.JobCondition) bool {
		return clusters.IsMark(string(c.Type)) && (c.Type != t || c.Reason != reason)
	})
	setCondition(&s, t, reason, message, now)
	return s
}

// lost returns the status of a Job that somebody has removed in the cluster. It has failed, unless it was about to complete: that is decided
// by then.
func lost(l *batchv1.Job, cluster string, now time.Time) batchv1.JobStatus {
	s := *l.Status.DeepCopy()
	s.Active, s.Ready, s.Terminating, s.UncountedTerminatedPods = 0, ptr.To[int32](0), ptr.To[int32](0), nil
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c batchv1.JobCondition) bool { return clusters.IsMark(string(c.Type)) })
	at := metav1.NewTime(now.Truncate(time.Second))
	if s.StartTime == nil {
		s.StartTime = &at
	}
	message := "Somebody has removed the Job from the cluster " + cluster
	if is(l, batchv1.JobSuccessCriteriaMet) {
		end := at
		if end.Before(s.StartTime) { // which the clock of the cluster has given
			end = *s.StartTime
		}
		s.CompletionTime = &end
		setCondition(&s, batchv1.JobComplete, clusters.ReasonRemoteJobDeleted, message+" when it was about to complete", now)
		return s
	}
	for _, t := range []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed} {
		if !is(l, t) {
			setCondition(&s, t, clusters.ReasonRemoteJobDeleted, message, now)
		}
	}
	return s
}

// setCondition makes a condition true.
func setCondition(s *batchv1.JobStatus, t batchv1.JobConditionType, reason, message string, now time.Time) {
	at := metav1.NewTime(now.Truncate(time.Second))
	c := batchv1.JobCondition{
		Type: t, Status: corev1.ConditionTrue, Reason: reason, Message: conditions.Brief(message), LastProbeTime: at, LastTransitionTime: at,
	}
	i := slices.IndexFunc(s.Conditions, func(c batchv1.JobCondition) bool { return c.Type == t })
	switch {
	case i < 0:
		s.Conditions = append(s.Conditions, c)
	case s.Conditions[i].Status == corev1.ConditionTrue:
		c.LastTransitionTime = s.Conditions[i].LastTransitionTime
		fallthrough
	default:
		s.Conditions[i] = c
	}
}

// finished reports whether a Job has ended.
func finished(j *batchv1.Job) bool { return batch.End(&j.Status) != nil }
