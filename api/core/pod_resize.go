package core

// Resources of the containers of a pod that exists (KEP-1287): what a write of pods/resize may change.

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/jobd/jobd/api/podspec"
)

// resizable are the resources that a write of pods/resize may change.
var resizable = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// validateResizePolicy checks what becomes of a container whose resources change (Container.ResizePolicy).
func validateResizePolicy(c *corev1.Container, pod corev1.RestartPolicy, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[corev1.ResourceName]bool{}
	for i, p := range c.ResizePolicy {
		if seen[p.ResourceName] {
			errs = append(errs, field.Duplicate(path.Index(i), p.ResourceName))
		}
		seen[p.ResourceName] = true
		errs = append(errs, requiredOneOf(path, p.ResourceName, resizable)...)
		errs = append(errs, requiredOneOf(path, p.RestartPolicy,
			[]corev1.ResourceResizeRestartPolicy{corev1.NotRequired, corev1.RestartContainer})...)
		if pod == corev1.RestartPolicyNever && p.RestartPolicy != corev1.NotRequired {
			errs = append(errs, field.Invalid(path, p.RestartPolicy,
				"must be 'NotRequired' when pod `restartPolicy` is 'Never'"))
		}
	}
	return errs
}

// preparePodResize keeps of the old Pod all but the resources that a client has set, and counts the generation. What else
// a client has changed in the list of containers is left to validatePodResize.
func preparePodResize(pod, old *corev1.Pod) {
	if len(pod.Spec.Containers) == len(old.Spec.Containers) &&
		len(pod.Spec.InitContainers) == len(old.Spec.InitContainers) {
		whole := pod.Spec.Resources
		containers := resized(pod.Spec.Containers, old.Spec.Containers)
		initContainers := resized(pod.Spec.InitContainers, old.Spec.InitContainers)
		pod.Spec, pod.Status = *old.Spec.DeepCopy(), old.Status
		pod.Spec.Containers, pod.Spec.InitContainers, pod.Spec.Resources = containers, initContainers, whole
		pod.DeletionGracePeriodSeconds = old.DeletionGracePeriodSeconds
		metav1.ResetObjectMetaForStatus(&pod.ObjectMeta, &old.ObjectMeta)
	}
	if pod.Spec.Resources == nil && old.Spec.Resources != nil {
		pod.Spec.Resources = old.Spec.Resources.DeepCopy() // the client does not know the field
	}
	if pod.Spec.Resources != nil {
		defaultPodResources(pod)
	}
	countGeneration(pod, old)
}

// resized returns the old containers with the new ones' resources, or the new ones where those have other names.
func resized(now, was []corev1.Container) []corev1.Container {
	if len(now) == 0 {
		return now
	}
	out := make([]corev1.Container, len(was))
	for i := range was {
		if now[i].Name != was[i].Name {
			return now
		}
		out[i] = *was[i].DeepCopy()
		out[i].Resources, out[i].ResizePolicy = now[i].Resources, now[i].ResizePolicy
	}
	return out
}

// validatePodResize checks a Pod whose resources have changed: only amounts of cpu and memory may, none may be removed, and
// the Pod stays in its quality of service class.
func validatePodResize(pod, old *corev1.Pod) field.ErrorList {
	path := field.NewPath("spec")
	errs := validation.ValidateObjectMetaUpdate(&pod.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	errs = append(errs, validatePodSpec(&pod.Spec, path)...)
	if old.Spec.OS != nil && old.Spec.OS.Name == corev1.Windows {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "windows pods cannot be resized")}
	}
	if old.Status.QOSClass != PodQOS(&pod.Spec) {
		errs = append(errs, field.Invalid(path, pod.Status.QOSClass, "Pod QOS Class may not change as a result of resizing"))
	}
	for _, s := range old.Status.ContainerStatuses {
		if s.State.Running != nil && s.Resources == nil {
			errs = append(errs, field.Forbidden(path, "Pod running on node without support for resize"))
			break
		}
	}
	rest := pod.Spec.DeepCopy()
	if hasAmounts(old.Spec.Resources) || hasAmounts(pod.Spec.Resources) {
		errs = append(errs, validateWholeResize(rest, &pod.Spec, &old.Spec, podspec.Bound(old), path)...)
	}
	order := sameContainers(pod.Spec.Containers, old.Spec.Containers, "containers", path)
	order = append(order, sameContainers(pod.Spec.InitContainers, old.Spec.InitContainers, "initContainers", path)...)
	if len(order) > 0 {
		return append(errs, order...)
	}
	for _, list := range []struct {
		name     string
		now, was []corev1.Container
	}{{"initContainers", pod.Spec.InitContainers, old.Spec.InitContainers}, {"containers", pod.Spec.Containers, old.Spec.Containers}} {
		for i := range list.was {
			errs = append(errs, noneRemoved(&list.now[i].Resources, &list.was[i].Resources,
				path.Child(list.name).Index(i).Child("resources"), "resource")...)
		}
	}
	for i := range rest.Containers {
		withResizable(&rest.Containers[i].Resources, &old.Spec.Containers[i].Resources)
		if !equality.Semantic.DeepEqual(rest.Containers[i], old.Spec.Containers[i]) {
			errs = append(errs, field.Forbidden(path, "only cpu and memory resources are mutable"))
		}
	}
	for i := range rest.InitContainers {
		c, was, path := &rest.InitContainers[i], &old.Spec.InitContainers[i], path.Child("initContainers").Index(i)
		changed := !equality.Semantic.DeepEqual(c, was)
		withResizable(&c.Resources, &was.Resources)
		if !equality.Semantic.DeepEqual(c, was) {
			errs = append(errs, field.Forbidden(path, "only cpu and memory resources for init or sidecar containers are mutable"))
		}
		if changed && !podspec.IsSidecar(was) && restartsForAny(c) {
			errs = append(errs, field.Forbidden(path,
				"non-sidecar init containers with a resize policy of RestartContainer cannot be resized"))
		}
	}
	if len(errs) == 0 && !equality.Semantic.DeepEqual(*rest, old.Spec) {
		errs = append(errs, field.Forbidden(path, "only cpu and memory resources are mutable"))
	}
	return errs
}

// validateWholeResize checks the resources of the whole Pod (PodSpec.Resources), and makes those of rest the old ones
// where they may change. A Pod that runs without such resources gets none, since its containers are not in a cgroup of its
// own that could be limited.
func validateWholeResize(rest, now, was *corev1.PodSpec, bound bool, path *field.Path) field.ErrorList {
	if was.Resources != nil && now.Resources == nil {
		return field.ErrorList{field.Forbidden(path.Child("resources"), "pod-level resources cannot be removed")}
	}
	if !hasAmounts(was.Resources) && bound {
		return field.ErrorList{field.Forbidden(path.Child("resources"),
			"pod-level resources cannot be added to a pod that is bound to a node")}
	}
	var errs field.ErrorList
	before := &corev1.ResourceRequirements{}
	if was.Resources != nil {
		before = was.Resources
		errs = noneRemoved(now.Resources, before, path.Child("resources"), "pod-level resource")
	}
	withResizable(rest.Resources, before)
	if was.Resources == nil && !hasAmounts(rest.Resources) && len(rest.Resources.Claims) == 0 {
		rest.Resources = nil
	}
	if !equality.Semantic.DeepEqual(rest.Resources, was.Resources) {
		errs = append(errs, field.Forbidden(path, "only cpu and memory resources are mutable at pod-level"))
	}
	return errs
}

func hasAmounts(r *corev1.ResourceRequirements) bool {
	return r != nil && len(r.Requests)+len(r.Limits) > 0
}

// sameContainers refuses that a list of containers has others than before.
func sameContainers(now, was []corev1.Container, name string, path *field.Path) (errs field.ErrorList) {
	if len(now) != len(was) {
		return field.ErrorList{field.Forbidden(path.Child(name), name+" may not be added or removed on resize")}
	}
	for i := range was {
		if now[i].Name != was[i].Name {
			errs = append(errs,
				field.Forbidden(path.Child(name).Index(i).Child("name"), name+" may not be renamed or reordered on resize"))
		}
	}
	return errs
}

// noneRemoved refuses that a request or a limit is removed.
func noneRemoved(now, was *corev1.ResourceRequirements, path *field.Path, what string) (errs field.ErrorList) {
	removed := func(now, was corev1.ResourceList) bool {
		for name := range was {
			if _, ok := now[name]; !ok {
				return true
			}
		}
		return false
	}
	if removed(now.Requests, was.Requests) {
		errs = append(errs, field.Forbidden(path.Child("requests"), what+" requests cannot be removed"))
	}
	if removed(now.Limits, was.Limits) {
		errs = append(errs, field.Forbidden(path.Child("limits"), what+" limits cannot be removed"))
	}
	return errs
}

// withResizable sets those amounts that may change to others'.
func withResizable(r, others *corev1.ResourceRequirements) {
	set := func(list *corev1.ResourceList, others corev1.ResourceList) {
		for _, name := range resizable {
			delete(*list, name)
			if amount, ok := others[name]; ok {
				if *list == nil {
					*list = corev1.ResourceList{}
				}
				(*list)[name] = amount
			}
		}
	}
	set(&r.Limits, others.Limits)
	set(&r.Requests, others.Requests)
}

// restartsForAny reports whether a container is restarted when some of its resources change.
func restartsForAny(c *corev1.Container) bool {
	for _, p := range c.ResizePolicy {
		if p.RestartPolicy == corev1.RestartContainer {
			return true
		}
	}
	return false
}

// ResizeFields matches the fields of a Pod that a write of pods/resize sets, and that its author owns thereafter.
func ResizeFields() fieldpath.Filter {
	var matchers []*fieldpath.SetMatcher
	for _, list := range []string{"containers", "initContainers"} {
		for _, name := range []string{"resources", "resizePolicy"} {
			matchers = append(matchers, fieldpath.MakePrefixMatcherOrDie("spec", list, fieldpath.MatchAnyPathElement(), name))
		}
	}
	return fieldpath.NewIncludeMatcherFilter(append(matchers, fieldpath.MakePrefixMatcherOrDie("spec", "resources"))...)
}
