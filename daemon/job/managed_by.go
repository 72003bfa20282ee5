package job

import batchv1 "k8s.io/api/batch/v1"

// Managed tells whether a Job is ours: spec.managedBy of anything but the built-in controller hands it to somebody
// else, and then nothing of it is touched here.
func Managed(job *batchv1.Job) bool {
	by := job.Spec.ManagedBy
	return by == nil || *by == batchv1.JobControllerName
}
