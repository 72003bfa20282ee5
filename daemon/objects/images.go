package objects

import (
	"iter"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
)

// Images returns the images that a pod names: those of its containers and of its volumes.
func Images(spec *corev1.PodSpec) iter.Seq[string] {
	return func(yield func(string) bool) {
		for c := range podspec.Containers(spec) {
			if !yield(c.Image) {
				return
			}
		}
		for _, v := range spec.Volumes {
			if v.Image != nil && !yield(v.Image.Reference) {
				return
			}
		}
	}
}
