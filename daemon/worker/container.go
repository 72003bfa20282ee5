package worker

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/runtime"
)

// container returns the container of a pod that has this name, and whether it is an init container. Nil: there is none.
// An ephemeral container is one too.
func container(obj *corev1.Pod, name string) (c *corev1.Container, init bool) {
	for i := range obj.Spec.InitContainers {
		if c := &obj.Spec.InitContainers[i]; c.Name == name {
			return c, true
		}
	}
	for i := range obj.Spec.Containers {
		if c := &obj.Spec.Containers[i]; c.Name == name {
			return c, false
		}
	}
	for i := range obj.Spec.EphemeralContainers {
		if c := podspec.Ephemeral(&obj.Spec, i); c.Name == name {
			return c, false
		}
	}
	return nil, false
}

// containerID is the runtime's name for one attempt of a container of a pod.
func containerID(obj *corev1.Pod, container string, attempt int) string {
	return runtime.ContainerID(string(obj.UID), container, attempt)
}
