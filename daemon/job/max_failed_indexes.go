package job

import batchv1 "k8s.io/api/batch/v1"

// failedIndexes returns why the failed indexes of a Job with backoffLimitPerIndex end it: there are more of them than
// spec.maxFailedIndexes, or no other index is left. Nil: they do not.
func (r *Record) failedIndexes() *verdict {
	n := r.failedSet.Len()
	switch {
	case r.spec.perIndex < 0 || n == 0:
		return nil
	case r.spec.maxFailedIndexes >= 0 && n > int(r.spec.maxFailedIndexes):
		return failure(batchv1.JobReasonMaxFailedIndexesExceeded,
			"Job has exceeded the specified maximal number of failed indexes")
	case n+r.completed.Len() >= int(r.spec.completions):
		return failure(batchv1.JobReasonFailedIndexes, "Job has failed indexes")
	}
	return nil
}
