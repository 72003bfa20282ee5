package podspec

import corev1 "k8s.io/api/core/v1"

// Ended reports whether a pod has ended: nothing changes its phase any more.
func Ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Bound reports whether a pod is bound to jobd's node, which runs it. A pod whose manifest names a node
// (PodSpec.NodeName) is so once that node has taken it: until then its PodScheduled condition is False.
func Bound(pod *corev1.Pod) bool {
	if pod.Spec.NodeName == "" {
		return false
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled {
			return c.Status != corev1.ConditionFalse
		}
	}
	return true
}

// Elsewhere reports whether a pod is for another node than this one, which is not known if its name is empty.
func Elsewhere(pod *corev1.Pod, node string) bool {
	return pod.Spec.NodeName != "" && node != "" && pod.Spec.NodeName != node
}
