package job

import batchv1 "k8s.io/api/batch/v1"

// backoffLimitExceeded reports whether more pods failed than spec.backoffLimit allows. With restartPolicy OnFailure
// restarts in place count too, and of them the limit itself is already too many: the last restart is cut short.
func (r *Record) backoffLimitExceeded() *verdict {
	limit := int64(r.spec.backoffLimit)
	if int64(r.status.Failed)+int64(r.failed) > limit ||
		r.spec.onFailure && r.restarts >= max(limit, 1) {
		return failure(batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit")
	}
	return nil
}
