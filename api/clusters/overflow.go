package clusters

import (
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"
)

// A Job with spec.managedBy jobd.dev/overflow.CLUSTER runs here if it can start here in time, and otherwise in that cluster. It is one
// manager's at each moment: jobd's until it is handed over, and then that of the cluster's forwarder.
const (
	ownPrefix      = "jobd.dev/"
	overflowPrefix = ownPrefix + "overflow."
	// OverflowAfterAnnotation is for how long such a Job waits here since its start (JobStatus.StartTime): a duration such as "10m".
	OverflowAfterAnnotation = ownPrefix + "overflow-after"
	// defaultOverflowAfter is for how long it waits without the annotation.
	defaultOverflowAfter = 10 * time.Minute
	// OverflowedAnnotation is when it was handed over, as only the daemon writes it.
	OverflowedAnnotation = ownPrefix + "overflowed-at"
)

// OverflowManager returns the value of spec.managedBy for Jobs that overflow to a cluster.
func OverflowManager(cluster string) string { return overflowPrefix + cluster }

// OverflowTo returns the cluster to which a Job may overflow, or has overflowed; empty if there is none.
func OverflowTo(j *batchv1.Job) string { return managedAs(j, overflowPrefix) }

// IsOverflowed reports whether a Job was handed over.
func IsOverflowed(j *batchv1.Job) bool {
	_, ok := j.Annotations[OverflowedAnnotation]
	return ok && OverflowTo(j) != ""
}

// OverflowAfter returns for how long a Job waits here; false if its annotation is no such time.
func OverflowAfter(annotations map[string]string) (time.Duration, bool) {
	text, ok := annotations[OverflowAfterAnnotation]
	if !ok {
		return defaultOverflowAfter, true
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d >= 0
}

// ManagedHere reports whether jobd itself manages a Job now (JobSpec.ManagedBy, KEP-4368).
func ManagedHere(j *batchv1.Job) bool {
	return ptr.Deref(j.Spec.ManagedBy, batchv1.JobControllerName) == batchv1.JobControllerName || OverflowTo(j) != "" && !IsOverflowed(j)
}

// Misnamed says what is wrong with a value of spec.managedBy that is jobd's own; empty if nothing is.
func Misnamed(manager string) string {
	cluster, ok := strings.CutPrefix(manager, overflowPrefix)
	if !strings.HasPrefix(manager, ownPrefix) || ok && cluster != "" {
		return ""
	}
	return "names that begin with " + ownPrefix + " are jobd's own, of which there is " + OverflowManager("CLUSTER")
}
