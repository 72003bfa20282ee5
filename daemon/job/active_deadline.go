package job

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/podspec"
)

// deadline returns when spec.activeDeadlineSeconds ends a Job that started at start; false if there is no deadline, as
// for a suspended Job.
func (r *Record) deadline(start *metav1.Time) (time.Time, bool) {
	if r.spec.deadline < 0 || r.spec.suspend || start == nil {
		return time.Time{}, false
	}
	return start.Add(podspec.Seconds(r.spec.deadline)), true
}

func (r *Record) deadlineExceeded(start *metav1.Time, now time.Time) *verdict {
	if at, ok := r.deadline(start); ok && !now.Before(at) {
		return failure(batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline")
	}
	return nil
}
