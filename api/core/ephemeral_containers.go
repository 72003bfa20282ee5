package core

// Containers that are added to a pod that exists, to look into it (KEP-277): what one may ask for, and what a write of
// pods/ephemeralcontainers may change.

import (
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/jobd/jobd/api/kind"
	"github.com/jobd/jobd/api/podspec"
)

// ephemeralContainers checks the ephemeral containers of a pod whose other containers have been seen.
func (p *podContext) ephemeralContainers(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range p.spec.EphemeralContainers {
		errs = append(errs, p.ephemeralContainer(i, path.Index(i))...)
	}
	return errs
}

func (p *podContext) ephemeralContainer(i int, path *field.Path) field.ErrorList {
	c := podspec.Ephemeral(p.spec, i)
	errs := p.container(c, path)
	target := p.spec.EphemeralContainers[i].TargetContainerName
	if target != "" && !p.isWorkload(target) {
		errs = append(errs, field.NotFound(path.Child("targetContainerName"), target))
	}
	for n, m := range c.VolumeMounts {
		path := path.Child("volumeMounts").Index(n)
		if m.SubPath != "" {
			errs = append(errs, field.Forbidden(path.Child("subPath"), noEphemeral))
		}
		if m.SubPathExpr != "" {
			errs = append(errs, field.Forbidden(path.Child("subPathExpr"), noEphemeral))
		}
	}
	return errs
}

// isWorkload reports whether the pod was created with a container of that name.
func (p *podContext) isWorkload(name string) bool {
	for c := range podspec.Workload(p.spec) {
		if c.Name == name {
			return true
		}
	}
	return false
}

// prepareEphemeralContainersUpdate keeps of the old Pod all but its ephemeral containers, and counts the generation.
func prepareEphemeralContainersUpdate(pod, old *corev1.Pod) {
	added := pod.Spec.EphemeralContainers
	pod.Spec, pod.Status = *old.Spec.DeepCopy(), old.Status
	pod.Spec.EphemeralContainers = added
	pod.DeletionGracePeriodSeconds = old.DeletionGracePeriodSeconds
	metav1.ResetObjectMetaForStatus(&pod.ObjectMeta, &old.ObjectMeta)
	countGeneration(pod, old)
}

// validateEphemeralContainersUpdate checks a Pod to which ephemeral containers were added. Those that it has stay as
// they are.
func validateEphemeralContainersUpdate(pod, old *corev1.Pod) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&pod.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	path := field.NewPath("spec", "ephemeralContainers")
	context := newPodContext(&pod.Spec)
	for c := range podspec.Workload(&pod.Spec) {
		context.names[c.Name] = true
	}
	errs = append(errs, context.ephemeralContainers(path)...)
	errs = append(errs, boundContainers(&pod.Spec, field.NewPath("spec"))...)
	for i := range pod.Spec.EphemeralContainers {
		errs = append(errs, unsupportedEphemeral(&pod.Spec, i, path.Index(i))...)
	}
	for i := range old.Spec.EphemeralContainers {
		was := &old.Spec.EphemeralContainers[i]
		is := podspec.FindEphemeral(&pod.Spec, was.Name)
		switch {
		case is == nil:
			errs = append(errs, field.Forbidden(path,
				fmt.Sprintf("existing ephemeral containers %q may not be removed\n", was.Name)))
		case !equality.Semantic.DeepEqual(was, is):
			errs = append(errs, field.Forbidden(path,
				fmt.Sprintf("existing ephemeral containers %q may not be changed\n%v", was.Name, diff.Diff(was, is))))
		}
	}
	return errs
}

// exceptEphemeralContainers returns the fields that a write of pods/ephemeralcontainers does not set.
func exceptEphemeralContainers() *fieldpath.Set {
	set := kind.Path("status").Union(kind.Path("metadata", "labels")).Union(kind.Path("metadata", "annotations")).
		Union(kind.Path("metadata", "finalizers")).Union(kind.Path("metadata", "ownerReferences"))
	spec := reflect.TypeFor[corev1.PodSpec]()
	for i := range spec.NumField() {
		name, _, _ := strings.Cut(spec.Field(i).Tag.Get("json"), ",")
		if name != "ephemeralContainers" {
			set = set.Union(kind.Path("spec", name))
		}
	}
	return set
}
