// Package podspec answers questions about a pod's spec, and about its status, that many parts of jobd ask. It changes nothing.
package podspec

import (
	"iter"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
// decides what may be in one asks Templates.
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

// Template is what pods are made of: the metadata and the spec of a pod, or of a template of them.
type Template struct {
	Meta *metav1.ObjectMeta
	Spec *corev1.PodSpec
}

// Templates iterates over all that an object has of these, each with the path of its spec: one of a pod, a Job or a CronJob, and one of
// each group of a JobSet. Whoever decides by them who may make pods, or what these may be, has to ask for all.
func Templates(obj runtime.Object) iter.Seq2[Template, *field.Path] {
	return func(yield func(Template, *field.Path) bool) {
		spec, path := Of(obj)
		switch o := obj.(type) {
		case *corev1.Pod:
			yield(Template{&o.ObjectMeta, spec}, path)
		case *batchv1.Job:
			yield(Template{&o.Spec.Template.ObjectMeta, spec}, path)
		case *batchv1.CronJob:
			yield(Template{&o.Spec.JobTemplate.Spec.Template.ObjectMeta, spec}, path)
		case *jobsetv1.JobSet:
			for i := range o.Spec.ReplicatedJobs {
				pods := &o.Spec.ReplicatedJobs[i].Template.Spec.Template
				at := field.NewPath("spec", "replicatedJobs").Index(i).Child("template", "spec", "template", "spec")
				if !yield(Template{&pods.ObjectMeta, &pods.Spec}, at) {
					return
				}
			}
		}
	}
}

// SameSpecs reports whether two objects have the same specs of pods, in the same order.
func SameSpecs(a, b runtime.Object) bool {
	specs := func(obj runtime.Object) (all []*corev1.PodSpec) {
		for t := range Templates(obj) {
			all = append(all, t.Spec)
		}
		return all
	}
	return equality.Semantic.DeepEqual(specs(a), specs(b))
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

// SharesFiles reports whether other pods may have a volume of a pod too: any but those that are made for it, or that nobody can write to.
func SharesFiles(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool {
		return v.EmptyDir == nil && v.ConfigMap == nil && v.Secret == nil && v.DownwardAPI == nil && v.Projected == nil && v.Image == nil
	})
}

// IsSidecar reports whether an init container keeps running beside the regular ones (KEP-753).
func IsSidecar(c *corev1.Container) bool {
	return ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways
}
