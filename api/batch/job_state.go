package batch

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// The states of a Job, each in the word that all of jobd's own views have for it. Only the column STATUS of "jobctl get" has
// the words of a cluster.
const (
	StateWaiting     = "Waiting"    // none of its pods is ready: they wait, are being started, or there are none, since it awaits other Jobs or a time
	StateRunning     = "Running"    // at least one pod is ready
	StateSuspended   = "Suspended"  // spec.suspend
	StatePaused      = "Paused"     // PausedAnnotation, or the end of its window: its pods are frozen, or about to be, or it does not begin
	StatePreempted   = "Preempted"  // all of its pods are paused for others of a higher priority
	StateCompleting  = "Completing" // it is decided that it has succeeded, and its last pods are ending
	StateFailing     = "Failing"    // it is decided that it has failed, and its last pods are ending
	StateComplete    = "Complete"
	StateFailed      = "Failed"
	StateTerminating = "Terminating" // it was deleted before it had finished
)

// State returns a Job's state in one word. It needs the Job alone, so that who lists Jobs and who asks about one say the
// same; api/dashboard/page/ui.js has the same rules for the browser.
func State(j *batchv1.Job) string {
	if end := End(&j.Status); end != nil {
		return string(end.Type)
	}
	if j.DeletionTimestamp != nil {
		return StateTerminating
	}
	if c := Ending(&j.Status); c != nil {
		if c.Type == batchv1.JobFailureTarget {
			return StateFailing
		}
		return StateCompleting
	}
	switch awaits := Awaits(j); {
	case ptr.Deref(j.Spec.Suspend, false) && !awaits:
		return StateSuspended
	case Paused(j.Annotations), PausedByWindow(j) && !awaits:
		return StatePaused
	case awaits:
	case PausedBy(&j.Status) == Preempted:
		return StatePreempted
	case ptr.Deref(j.Status.Ready, 0) > 0:
		return StateRunning
	}
	return StateWaiting
}

// Ending returns the condition with which it is decided how a Job ends that has not finished, FailureTarget before
// SuccessCriteriaMet; nil if that is open, or it has finished.
func Ending(s *batchv1.JobStatus) *batchv1.JobCondition {
	if End(s) != nil {
		return nil
	}
	for _, t := range []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet} {
		for i := range s.Conditions {
			if c := &s.Conditions[i]; c.Type == t && c.Status == corev1.ConditionTrue {
				return c
			}
		}
	}
	return nil
}
