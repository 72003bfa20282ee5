package job

import batchv1 "k8s.io/api/batch/v1"

// Managed reports whether jobd manages a Job. If spec.managedBy names another controller than the built-in one, jobd
// leaves the Job alone.
func Managed(job *batchv1.Job) bool {
	by := job.Spec.ManagedBy
	return by == nil || *by == batchv1.JobControllerName
}
