package podspec

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// ContainerName returns the name of the container of a pod that a client means by name: the only one if that is empty.
func ContainerName(pod *corev1.Pod, name string) (string, error) {
	var all []string
	for c := range Containers(&pod.Spec) {
		all = append(all, c.Name)
	}
	if name == "" {
		if len(pod.Spec.Containers) == 1 {
			return pod.Spec.Containers[0].Name, nil
		}
		return "", fmt.Errorf("a container name must be specified for pod %s, choose one of: %s", pod.Name, all)
	}
	if slices.Contains(all, name) {
		return name, nil
	}
	return "", fmt.Errorf("container %s is not valid for pod %s", name, pod.Name)
}
