package podspec

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
)

// Statuses iterates over the statuses of the containers that a pod was created with: of the init containers, then of the regular ones. They
// are the pod's own.
func Statuses(pod *corev1.Pod) iter.Seq[*corev1.ContainerStatus] {
	return func(yield func(*corev1.ContainerStatus) bool) {
		for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

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

// HasFailed reports whether such an end of one of a pod's containers is a failure: one with a non-zero exit code. An init
// container that is no sidecar has also failed if the kernel killed one of its processes for want of memory, whatever its exit
// code: what the containers after it build upon may be missing. A kubelet does the same.
func HasFailed(spec *corev1.PodSpec, container string, end *corev1.ContainerStateTerminated) bool {
	if end.ExitCode != 0 || end.Reason != OOMKilled {
		return end.ExitCode != 0
	}
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; c.Name == container {
			return !IsSidecar(c)
		}
	}
	return false
}

// OOMKilled is the reason for the end of a container in which the kernel killed a process for want of memory.
const OOMKilled = "OOMKilled"
