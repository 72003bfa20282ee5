package objects

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/pod"
)

// Runs reports whether a pod is bound to this node and has not ended.
func Runs(p *corev1.Pod) bool { return podspec.Bound(p) && !podspec.Ended(p) }

// Done reports whether nothing is left to be done for a pod: it has ended, its Job has counted it, and nothing of it is
// left on the machine.
func Done(p *corev1.Pod) bool {
	return podspec.Ended(p) && pod.Done(p) && p.DeletionTimestamp == nil &&
		!slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer)
}

// PodReference returns the reference to a pod in an event.
func PodReference(p *corev1.Pod) corev1.ObjectReference {
	return corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}

// StorageLimited reports whether any container of a pod has a limit of ephemeral storage.
func StorageLimited(spec *corev1.PodSpec) bool {
	for c := range podspec.Containers(spec) {
		if _, ok := c.Resources.Limits[corev1.ResourceEphemeralStorage]; ok {
			return true
		}
	}
	return false
}
