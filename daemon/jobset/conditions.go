package jobset

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// set sets a condition, and tells of it by an event if it has changed. One that was never true is not added as false.
func (d *decision) set(kind string, t jobsetv1.JobSetConditionType, status metav1.ConditionStatus, reason, message string) {
	next := metav1.Condition{
		Type: string(t), Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(d.now.Truncate(1e9)),
	}
	found, changed := false, false
	for i := range d.Status.Conditions {
		c := &d.Status.Conditions[i]
		switch {
		case c.Type != next.Type:
			if next.Status == metav1.ConditionTrue && c.Status == metav1.ConditionTrue && excludes(t, jobsetv1.JobSetConditionType(c.Type)) {
				c.Status, changed = metav1.ConditionFalse, true
			}
			continue
		case c.Status == next.Status && c.Reason == next.Reason && c.Message == next.Message:
		default:
			if c.Status == next.Status {
				next.LastTransitionTime = c.LastTransitionTime
			}
			*c, changed = next, true
		}
		found = true
	}
	if !found && next.Status == metav1.ConditionTrue {
		d.Status.Conditions, changed = append(d.Status.Conditions, next), true
	}
	if changed {
		d.event(kind, reason, message)
	}
}

// excludes reports whether of two conditions only one is true.
func excludes(a, b jobsetv1.JobSetConditionType) bool {
	begun, done := jobsetv1.JobSetStartupPolicyInProgress, jobsetv1.JobSetStartupPolicyCompleted
	return a == begun && b == done || a == done && b == begun
}

// notRestarting says that a restart is over, if there was one.
func (d *decision) notRestarting(reason, message string) {
	d.set(normal, jobsetv1.JobSetRestarting, metav1.ConditionFalse, reason, message)
}

// completedMessage is that of the condition and of the event.
const completedMessage = "jobset completed successfully"

// complete finishes the JobSet with success.
func (d *decision) complete() {
	d.set(normal, jobsetv1.JobSetCompleted, metav1.ConditionTrue, "AllJobsCompleted", completedMessage)
	d.notRestarting("JobSetCompleted", completedMessage)
	d.end(jobsetv1.JobSetCompleted)
}

// fail finishes the JobSet with a failure.
func (d *decision) fail(reason, message string) {
	d.set(warning, jobsetv1.JobSetFailed, metav1.ConditionTrue, reason, message)
	d.notRestarting("JobSetFailed", "jobset failed")
	d.end(jobsetv1.JobSetFailed)
}

// end says that the JobSet has finished: what still goes on is to be ended at once.
func (d *decision) end(as jobsetv1.JobSetConditionType) {
	d.Status.TerminalState = string(as)
	d.Ended, d.More = as, true
}
