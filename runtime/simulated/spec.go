package simulated

import (
	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
)

// Spec is all that a simulated container needs: its pod's annotations. Init containers do not get those that say how
// to end: they end at once with 0.
func Spec(pod *corev1.Pod, container string) *specs.Spec {
	spec := &specs.Spec{}
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == container {
			spec.Annotations = pod.Annotations
		}
	}
	return spec
}
