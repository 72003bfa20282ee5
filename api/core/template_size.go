package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxPodBytes bounds the spec of a pod, and a template of pods, as they are stored. One object may be larger, but of one template
// very many pods are made. A cluster takes about as much: there the whole object, with what is written beside the spec, must
// fit into a request to etcd of 1.5 MiB.
const maxPodBytes = 1 << 20

// sized has a size as it is stored.
type sized interface{ Size() int }

// CheckTemplateSize refuses a new template of pods that is too large, or has such names of images.
func CheckTemplateSize(template *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	return append(checkSize(template, path), checkImages(&template.Spec, nil, path.Child("spec"))...)
}

// CheckTemplateGrowth refuses a changed template of pods that is too large, unless the former one was as large: of an object from
// before there was a bound, the rest can be changed.
func CheckTemplateGrowth(template, old *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	return append(checkGrowth(template, old, path), checkImages(&template.Spec, &old.Spec, path.Child("spec"))...)
}

// checkPodSize refuses a new pod that is too large.
func checkPodSize(pod *corev1.Pod) field.ErrorList {
	path := field.NewPath("spec")
	return append(checkSize(&pod.Spec, path), checkImages(&pod.Spec, nil, path)...)
}

// checkPodGrowth does so for a pod that has changed.
func checkPodGrowth(pod, old *corev1.Pod) field.ErrorList {
	path := field.NewPath("spec")
	return append(checkGrowth(&pod.Spec, &old.Spec, path), checkImages(&pod.Spec, &old.Spec, path)...)
}

func checkSize(now sized, path *field.Path) field.ErrorList {
	if now.Size() <= maxPodBytes {
		return nil
	}
	return field.ErrorList{field.TooLong(path, "", maxPodBytes)}
}

func checkGrowth(now, old sized, path *field.Path) field.ErrorList {
	if size := now.Size(); size > maxPodBytes && size <= old.Size() {
		return nil
	}
	return checkSize(now, path)
}
