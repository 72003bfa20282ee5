// Package ttl decides when a finished Job is to be removed (JobSpec.TTLSecondsAfterFinished): in comes a Job, out goes
// a time. It touches nothing.
package ttl

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/jobd/jobd/api/batch"
)

// Expires returns the time at which a Job is to be removed, false if it is not finished, is being deleted already, or
// has no TTL. The TTL counts from the transition of the final condition, also if it is changed later.
func Expires(j *batchv1.Job) (time.Time, bool) {
	ttl := j.Spec.TTLSecondsAfterFinished
	if ttl == nil || j.DeletionTimestamp != nil {
		return time.Time{}, false
	}
	end := batch.End(&j.Status)
	if end == nil {
		return time.Time{}, false
	}
	return end.LastTransitionTime.Add(time.Duration(*ttl) * time.Second), true
}
