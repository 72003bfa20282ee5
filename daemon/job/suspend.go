package job

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// suspendOrResume sets the condition Suspended according to spec.suspend and the Job's window. A suspended Job has no start time, and a
// resumed one gets a new one, from which its deadline counts.
func (d *decision) suspendOrResume() {
	now := *d.time()
	if d.suspends {
		event := suspended(d.r.spec.suspend && d.r.spec.awaitsKueue)
		if setCondition(&d.next.Conditions, batchv1.JobSuspended, corev1.ConditionTrue, "JobSuspended", event.Message,
			now) {
			d.forced = true
			d.Events = append(d.Events, event)
		}
		if d.next.StartTime != nil {
			d.next.StartTime, d.pausedFor, d.forced = nil, 0, true
		}
		return
	}
	if setCondition(&d.next.Conditions, batchv1.JobSuspended, corev1.ConditionFalse, "JobResumed", "Job resumed", now) {
		if !d.r.waitsPaused() {
			d.start()
		}
		d.Events = append(d.Events, resumed())
	}
}
