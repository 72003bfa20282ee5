// Package allotment tells which resources a pod has been given, where it is being resized (KEP-1287): those of its spec once the node
// has admitted them, and until then what its status says.
//
// Everything is a pure function of the pod.
package allotment

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/api/podspec"
)

// Of returns the pod with the resources that the node has admitted: where it has not admitted those of the spec, or
// not yet, what the status says. This is what containers are started with, and what counts as taken. It returns the pod
// itself where both are the same.
//
// The status of a container holds its resources from the moment at which the pod was bound. A resize that was admitted
// and could not be carried out is forgotten when another one is not admitted.
func Of(pod *corev1.Pod) *corev1.Pod {
	if !Differs(pod) || Admitted(pod) {
		return pod
	}
	out := pod.DeepCopy()
	given := statuses(pod)
	for c := range podspec.Workload(&out.Spec) {
		if is := given[c.Name]; is != nil {
			c.Resources = *is.DeepCopy()
		}
	}
	if pod.Status.Resources != nil {
		out.Spec.Resources = pod.Status.Resources.DeepCopy()
	}
	return out
}

// Differs reports whether the resources of the spec differ from those of the status.
func Differs(pod *corev1.Pod) bool {
	if !sameWhole(pod) {
		return true
	}
	given := statuses(pod)
	for c := range podspec.Workload(&pod.Spec) {
		if is := given[c.Name]; is != nil && !equality.Semantic.DeepEqual(is, &c.Resources) {
			return true
		}
	}
	return false
}

// statuses returns what the status says of the resources of each container.
func statuses(pod *corev1.Pod) map[string]*corev1.ResourceRequirements {
	given := map[string]*corev1.ResourceRequirements{}
	for s := range podspec.Statuses(pod) {
		given[s.Name] = s.Resources
	}
	return given
}

// sameWhole reports whether the resources of the whole pod (PodSpec.Resources) are those of the status. The API does not
// let clients add any to a pod that was bound without them.
func sameWhole(pod *corev1.Pod) bool {
	return pod.Status.Resources == nil || equality.Semantic.DeepEqual(pod.Spec.Resources, pod.Status.Resources)
}

// Admitted reports whether the node has admitted the resources of the spec.
func Admitted(pod *corev1.Pod) bool {
	c := conditions.Find(pod.Status.Conditions, corev1.PodResizeInProgress)
	return c != nil && c.ObservedGeneration == pod.Generation &&
		conditions.Find(pod.Status.Conditions, corev1.PodResizePending) == nil
}

// IsResized reports whether a resize of the pod is pending or in progress.
func IsResized(pod *corev1.Pod) bool {
	return conditions.Find(pod.Status.Conditions, corev1.PodResizeInProgress) != nil ||
		conditions.Find(pod.Status.Conditions, corev1.PodResizePending) != nil
}

// Summary returns the resources that a pod is to have, in the format of a kubelet's events, and what is wrong with that.
func Summary(pod *corev1.Pod, problem string) string {
	type resources struct {
		Name      string                      `json:"name"`
		Resources corev1.ResourceRequirements `json:"resources,omitempty"`
	}
	var summary struct {
		InitContainers []resources `json:"initContainers,omitempty"`
		Containers     []resources `json:"containers,omitempty"`
		Generation     int64       `json:"generation"`
		Error          string      `json:"error,omitempty"`
	}
	for _, c := range pod.Spec.InitContainers {
		summary.InitContainers = append(summary.InitContainers, resources{c.Name, c.Resources})
	}
	for _, c := range pod.Spec.Containers {
		summary.Containers = append(summary.Containers, resources{c.Name, c.Resources})
	}
	summary.Error, summary.Generation = problem, pod.Generation
	if c := conditions.Find(pod.Status.Conditions, corev1.PodResizeInProgress); c != nil {
		summary.Generation = c.ObservedGeneration
	}
	encoded, err := json.Marshal(summary)
	if err != nil {
		return ""
	}
	return string(encoded)
}
