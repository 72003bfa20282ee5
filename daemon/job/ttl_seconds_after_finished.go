package job

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/clusters"
)

// TTL is for how long Jobs are kept after their end that do not say so themselves. 0: forever.
type TTL struct{ Complete, Failed time.Duration }

// Expires returns the time at which a Job is to be removed, false if it is not finished, is being deleted already, or has
// no TTL. The TTL counts from the transition of the final condition, also if it is changed later, and from when that was known here if the
// Job ran in a cluster: nobody has seen before how it ended.
func (t TTL) Expires(j *batchv1.Job) (time.Time, bool) {
	end := batch.End(&j.Status)
	if end == nil || j.DeletionTimestamp != nil {
		return time.Time{}, false
	}
	from := clusters.Ended(j, end.LastTransitionTime.Time)
	if ttl := j.Spec.TTLSecondsAfterFinished; ttl != nil {
		return from.Add(time.Duration(*ttl) * time.Second), true
	}
	if ttl, _ := t.Of(j); ttl > 0 {
		return from.Add(ttl), true
	}
	return time.Time{}, false
}

// Of returns the TTL that is meant for a finished Job without one of its own, and the setting that says so; 0 for none. What has a
// controller, such as a CronJob with its history limits, is that one's to remove.
func (t TTL) Of(j *batchv1.Job) (ttl time.Duration, setting string) {
	end := batch.End(&j.Status)
	if end == nil || j.Spec.TTLSecondsAfterFinished != nil || metav1.GetControllerOfNoCopy(j) != nil {
		return 0, ""
	}
	ttl, setting = t.Complete, "job-ttl"
	if end.Type == batchv1.JobFailed {
		ttl, setting = t.Failed, "failed-job-ttl"
	}
	if ttl <= 0 {
		return 0, ""
	}
	return ttl, setting
}
