package podspec

import corev1 "k8s.io/api/core/v1"

// ContainerStatus returns the status of a container of a pod, of whatever kind. Nil: it has none.
func ContainerStatus(pod *corev1.Pod, container string) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{
		pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses,
	} {
		for i := range list {
			if list[i].Name == container {
				return &list[i]
			}
		}
	}
	return nil
}
