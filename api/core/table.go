package core

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ContainerNames returns a cell in tables of objects with a pod template.
func ContainerNames(containers []corev1.Container) string {
	names := make([]string, len(containers))
	for i := range containers {
		names[i] = containers[i].Name
	}
	return strings.Join(names, ",")
}

// ContainerImages returns the cell beside it.
func ContainerImages(containers []corev1.Container) string {
	images := make([]string, len(containers))
	for i := range containers {
		images[i] = containers[i].Image
	}
	return strings.Join(images, ",")
}
