package worker

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/runtime"
)

// containerID is the runtime's name for one attempt of a container of a pod.
func containerID(obj *corev1.Pod, container string, attempt int) string {
	return runtime.ContainerID(string(obj.UID), container, attempt)
}
