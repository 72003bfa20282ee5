// Package ttl says when a finished Job is to be removed (JobSpec.TTLSecondsAfterFinished).
package ttl

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/jobd/jobd/daemon/job"
)

// Expires returns the time from which a Job is to be removed. False for one that is not finished, is being deleted
// already, or has no TTL. It counts from the transition of the final condition, so a TTL that is changed later
// still counts from the end of the Job.
func Expires(j *batchv1.Job) (time.Time, bool) {
	ttl := j.Spec.TTLSecondsAfterFinished
	if ttl == nil || j.DeletionTimestamp != nil {
		return time.Time{}, false
	}
	end := job.End(&j.Status)
	if end == nil {
		return time.Time{}, false
	}
	return end.LastTransitionTime.Add(time.Duration(*ttl) * time.Second), true
}
