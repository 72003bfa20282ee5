package job

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// deadline returns when spec.activeDeadlineSeconds ends a Job that started at start; false if there is no deadline, as
// for a suspended Job.
func (r *Record) deadline(start *metav1.Time) (time.Time, bool) {
	if r.spec.deadline < 0 || r.spec.suspend || start == nil {
		return time.Time{}, false
	}
	seconds := min(r.spec.deadline, int64((1<<63-1)/time.Second))
	return start.Add(time.Duration(seconds) * time.Second), true
}

func (r *Record) deadlineExceeded(start *metav1.Time, now time.Time) *verdict {
	if at, ok := r.deadline(start); ok && !now.Before(at) {
		return failure(batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline")
	}
	return nil
}
