package job

import (
	batchv1 "k8s.io/api/batch/v1"

	"github.com/jobd/jobd/api/clusters"
)

// Managed reports whether jobd manages a Job. If spec.managedBy names another controller than the built-in one, jobd
// leaves the Job alone.
func Managed(job *batchv1.Job) bool { return clusters.ManagedHere(job) }
