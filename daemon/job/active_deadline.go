package job

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/podspec"
)

// deadlineIn returns when spec.activeDeadlineSeconds ends the Job with a status, if it was paused for some time before the pause
// that the status tells of; false if there is no deadline, as for a Job that is suspended, paused or not started. That of its pods
// is in daemon/pod.
func (r *Record) deadlineIn(s *batchv1.JobStatus, pausedFor time.Duration) (time.Time, bool) {
	if _, paused := batch.PausedSince(s); paused || r.spec.deadline < 0 || r.spec.suspend || s.StartTime == nil {
		return time.Time{}, false
	}
	return s.StartTime.Add(podspec.Seconds(r.spec.deadline) + pausedFor), true
}

// ActiveDeadline returns spec.activeDeadlineSeconds of the Job; nil for none.
func (r *Record) ActiveDeadline() *int64 {
	if r.spec.deadline < 0 {
		return nil
	}
	return &r.spec.deadline
}

// Deadline returns when the deadline of the Job ends it as it stands; zero for never.
func (r *Record) Deadline() time.Time {
	at, _ := r.deadlineIn(&r.status, r.pausedFor)
	return at
}

// deadlineExceeded is a rule of judge. Where no rule applies, judge asks for another look at that time.
func (d *decision) deadlineExceeded() *verdict {
	if at, ok := d.r.deadlineIn(&d.next, d.pausedFor); ok && !d.suspends && !d.now.Before(at) {
		return failure(batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline")
	}
	return nil
}
