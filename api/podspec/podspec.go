// Package podspec answers questions about a pod's spec, and about its status, that many parts of jobd ask. It changes nothing.
package podspec

import (
	"iter"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// Containers iterates over all containers of a pod: the init containers, then the regular ones, then the ephemeral
// ones. They are the spec's own, and may be changed in place by whoever may change the spec.
func Containers(spec *corev1.PodSpec) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for c := range Workload(spec) {
			if !yield(c) {
				return
			}
		}
		for i := range spec.EphemeralContainers {
			if !yield(Ephemeral(spec, i)) {
				return
			}
		}
	}
}

// Workload iterates over the containers that a pod was created with: the init containers, then the regular ones.
func Workload(spec *corev1.PodSpec) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// Find returns the container of that name, of whatever kind; nil if there is none.
func Find(spec *corev1.PodSpec, name string) *corev1.Container {
	for c := range Containers(spec) {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// Each visits every container of a pod with its path below that of the spec: init containers, containers, and those for debugging.
func Each(spec *corev1.PodSpec, path *field.Path, visit func(*corev1.Container, *field.Path)) {
	for i := range spec.InitContainers {
		visit(&spec.InitContainers[i], path.Child("initContainers").Index(i))
	}
	for i := range spec.Containers {
		visit(&spec.Containers[i], path.Child("containers").Index(i))
	}
	for i := range spec.EphemeralContainers {
		visit(Ephemeral(spec, i), path.Child("ephemeralContainers").Index(i))
	}
}

// Ephemeral returns what an ephemeral container has in common with others. It is the spec's own.
func Ephemeral(spec *corev1.PodSpec, i int) *corev1.Container {
	return (*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon)
}

// FindEphemeral returns the ephemeral container of that name, nil if there is none.
func FindEphemeral(spec *corev1.PodSpec, name string) *corev1.EphemeralContainer {
	for i := range spec.EphemeralContainers {
		if spec.EphemeralContainers[i].Name == name {
			return &spec.EphemeralContainers[i]
		}
	}
	return nil
}

// Of returns the spec of the pods that an object is or makes, and its path in the object; nil if it makes none, or several kinds. Whoever
// decides what may be in one asks All.
func Of(obj runtime.Object) (*corev1.PodSpec, *field.Path) {
	path := field.NewPath("spec")
	switch obj := obj.(type) {
	case *corev1.Pod:
		return &obj.Spec, path
	case *batchv1.Job:
		return &obj.Spec.Template.Spec, path.Child("template", "spec")
	case *batchv1.CronJob:
		return &obj.Spec.JobTemplate.Spec.Template.Spec, path.Child("jobTemplate", "spec", "template", "spec")
	}
	return nil, nil
}

// All visits the spec of each kind of pods that an object is or makes, with its path in the object: that of Of, or those of the groups of a
// JobSet.
func All(obj runtime.Object) iter.Seq2[*corev1.PodSpec, *field.Path] {
	return func(yield func(*corev1.PodSpec, *field.Path) bool) {
		js, ok := obj.(*jobsetv1.JobSet)
		if !ok {
			if spec, at := Of(obj); spec != nil {
				yield(spec, at)
			}
			return
		}
		groups := field.NewPath("spec", "replicatedJobs")
		for i := range js.Spec.ReplicatedJobs {
			spec := &js.Spec.ReplicatedJobs[i].Template.Spec.Template.Spec
			if !yield(spec, groups.Index(i).Child("template", "spec", "template", "spec")) {
				return
			}
		}
	}
}

// RunsOnce reports whether a pod has one container only, which its restart policy never starts again. What such a pod
// owns in a cluster may be its container's own: nobody can tell. (A container that gets another image, or that
// is added for debugging, can.)
func RunsOnce(spec *corev1.PodSpec) bool {
	if len(spec.InitContainers) > 0 || len(spec.Containers) != 1 || len(spec.Containers[0].RestartPolicyRules) > 0 {
		return false
	}
	own := ptr.Deref(spec.Containers[0].RestartPolicy, corev1.ContainerRestartPolicy(spec.RestartPolicy))
	return own == corev1.ContainerRestartPolicyNever
}

// IsSidecar reports whether an init container keeps running beside the regular ones (KEP-753).
func IsSidecar(c *corev1.Container) bool {
	return ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways
}
