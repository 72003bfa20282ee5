package job

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/podspec"
)

// deadline returns when spec.activeDeadlineSeconds of the Job ends it, which started at start and was never paused; false if there
// is no deadline, as for a suspended Job. That of its pods is in daemon/pod.
func (r *Record) deadline(start *metav1.Time) (time.Time, bool) {
	if r.spec.deadline < 0 || r.spec.suspend || start == nil {
		return time.Time{}, false
	}
	return start.Add(podspec.Seconds(r.spec.deadline)), true
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

func (d *decision) deadlineExceeded() *verdict {
	if at, ok := d.r.deadlineIn(&d.next, d.pausedFor); ok && !d.suspends && !d.now.Before(at) {
		return failure(batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline")
	}
	return nil
}
