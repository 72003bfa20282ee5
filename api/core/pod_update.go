package core

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/podspec"
)

// validatePodUpdate checks a changed Pod. Little of a Pod can change once it exists: containers may get other images, the
// deadline may become earlier, tolerations may be added, scheduling gates removed, and a negative grace period corrected.
// While a pod has gates, what it asks of its node may become narrower.
func validatePodUpdate(pod, old *corev1.Pod) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&pod.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	annotations := field.NewPath("metadata", "annotations")
	if pod.Annotations[SignalAnnotation] != old.Annotations[SignalAnnotation] {
		errs = append(errs, validateSignal(pod.Annotations, annotations)...)
	}
	if pod.Annotations[KeepFilesAnnotation] != old.Annotations[KeepFilesAnnotation] {
		errs = append(errs, validateKeepFiles(pod.Annotations, &pod.Spec, annotations)...)
	}
	path := field.NewPath("spec")
	for _, list := range []struct {
		name     string
		now, was []corev1.Container
	}{
		{"containers", pod.Spec.Containers, old.Spec.Containers},
		{"initContainers", pod.Spec.InitContainers, old.Spec.InitContainers},
	} {
		path := path.Child(list.name)
		if len(list.now) != len(list.was) {
			return append(errs, field.Forbidden(path, "pod updates may not add or remove containers"))
		}
		for i := range list.now {
			errs = append(errs, validateImage(list.now[i].Image, path.Index(i).Child("image"))...)
		}
	}
	errs = append(errs, validateDeadlineUpdate(pod.Spec.ActiveDeadlineSeconds, old.Spec.ActiveDeadlineSeconds,
		path.Child("activeDeadlineSeconds"))...)
	if !slices.EqualFunc(pod.Spec.SchedulingGates, old.Spec.SchedulingGates, func(a, b corev1.PodSchedulingGate) bool { return a == b }) {
		for i, gate := range pod.Spec.SchedulingGates {
			if !slices.Contains(old.Spec.SchedulingGates, gate) {
				errs = append(errs, field.Forbidden(path.Child("schedulingGates").Index(i),
					"only deletion is allowed, but found new scheduling gate '"+gate.Name+"'"))
			}
		}
	}
	added := pod.Spec.Tolerations
	for _, t := range old.Spec.Tolerations {
		if !slices.ContainsFunc(added, func(o corev1.Toleration) bool {
			o.TolerationSeconds = t.TolerationSeconds
			return o == t
		}) {
			errs = append(errs, field.Forbidden(path.Child("tolerations"),
				"existing toleration can not be modified except its tolerationSeconds"))
			break
		}
	}
	errs = append(errs, ValidateTolerations(added, path.Child("tolerations"))...)

	rest := pod.Spec.DeepCopy()
	rest.ActiveDeadlineSeconds = old.Spec.ActiveDeadlineSeconds
	rest.SchedulingGates = old.Spec.SchedulingGates
	rest.Tolerations = old.Spec.Tolerations
	if len(old.Spec.SchedulingGates) > 0 {
		errs = append(errs, validateNodeConstraintsUpdate(&pod.Spec, &old.Spec, path)...)
		rest.NodeSelector = old.Spec.NodeSelector
		rest.Affinity = withNodeAffinity(rest.Affinity, &old.Spec)
	}
	if ptr.Deref(old.Spec.TerminationGracePeriodSeconds, 0) < 0 &&
		ptr.Deref(rest.TerminationGracePeriodSeconds, 0) == 1 {
		rest.TerminationGracePeriodSeconds = old.Spec.TerminationGracePeriodSeconds
	}
	for i := range rest.Containers {
		rest.Containers[i].Image = old.Spec.Containers[i].Image
	}
	for i := range rest.InitContainers {
		rest.InitContainers[i].Image = old.Spec.InitContainers[i].Image
	}
	if !equality.Semantic.DeepEqual(*rest, old.Spec) {
		errs = append(errs, field.Forbidden(path, "pod updates may not change fields other than "+
			"`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"+
			"`spec.tolerations` (only additions to existing tolerations),"+
			"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"))
	}
	return errs
}

func validateDeadlineUpdate(deadline, old *int64, path *field.Path) field.ErrorList {
	switch {
	case deadline == nil && old != nil:
		return field.ErrorList{field.Invalid(path, deadline, "must not update from a positive integer to nil value")}
	case deadline == nil:
		return nil
	case *deadline < 0 || *deadline > math.MaxInt32:
		return field.ErrorList{field.Invalid(path, *deadline, utilvalidation.InclusiveRangeError(0, math.MaxInt32))}
	case old != nil && *deadline > *old:
		return field.ErrorList{field.Invalid(path, *deadline, "must be less than or equal to previous value")}
	}
	return nil
}

// validatePodStatusUpdate checks a changed status: containers that have ended must stay so.
func validatePodStatusUpdate(pod, old *corev1.Pod) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&pod.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	path := field.NewPath("status")
	if pod.Spec.NodeName != old.Spec.NodeName {
		errs = append(errs, field.Forbidden(path.Child("nodeName"), "may not be changed directly"))
	}
	if s := pod.Status.NominatedNodeName; s != "" {
		errs = append(errs, invalid(path.Child("nominatedNodeName"), s, utilvalidation.IsDNS1123Subdomain(s))...)
	}
	for _, list := range []struct {
		name     string
		now, was []corev1.ContainerStatus
	}{
		{"containerStatuses", pod.Status.ContainerStatuses, old.Status.ContainerStatuses},
		{"initContainerStatuses", pod.Status.InitContainerStatuses, old.Status.InitContainerStatuses},
		{"ephemeralContainerStatuses", pod.Status.EphemeralContainerStatuses, old.Status.EphemeralContainerStatuses},
	} {
		policy := pod.Spec.RestartPolicy
		if list.name == "ephemeralContainerStatuses" {
			policy = corev1.RestartPolicyNever
		}
		errs = append(errs, validateStatesUpdate(policy, list.now, list.was, path.Child(list.name))...)
		if old.Spec.NodeName == "" || podspec.Bound(old) { // of what is on another node that node knows
			errs = append(errs, validateAttemptsUpdate(list.now, list.was, path.Child(list.name))...)
		}
	}
	if pod.Status.QOSClass != old.Status.QOSClass {
		errs = append(errs,
			field.Invalid(path.Child("qosClass"), pod.Status.QOSClass, validation.FieldImmutableErrorMsg))
	}
	for i, ip := range pod.Status.PodIPs {
		errs = append(errs, utilvalidation.IsValidIP(path.Child("podIPs").Index(i), ip.IP)...)
	}
	return errs
}

// validateStatesUpdate refuses that a container which is never restarted leaves its terminated state.
func validateStatesUpdate(
	policy corev1.RestartPolicy, now, was []corev1.ContainerStatus, path *field.Path,
) field.ErrorList {
	if policy == corev1.RestartPolicyAlways {
		return nil
	}
	var errs field.ErrorList
	for _, before := range was {
		t := before.State.Terminated
		if t == nil || t.ExitCode != 0 && policy == corev1.RestartPolicyOnFailure {
			continue
		}
		for i := range now {
			if now[i].Name == before.Name && now[i].State.Terminated == nil {
				errs = append(errs,
					field.Forbidden(path.Index(i).Child("state"), "may not be transitioned to non-terminated state"))
			}
		}
	}
	return errs
}

// validateAttemptsUpdate refuses that a client has containers forgotten: the count of restarts and the state Running say
// what runs, and what has to be ended with the pod. A kubelet would write them anew; here nobody else knows them.
func validateAttemptsUpdate(now, was []corev1.ContainerStatus, path *field.Path) field.ErrorList {
	find := func(list []corev1.ContainerStatus, name string) (int, corev1.ContainerStatus) {
		if i := slices.IndexFunc(list, func(s corev1.ContainerStatus) bool { return s.Name == name }); i >= 0 {
			return i, list[i]
		}
		return len(list), corev1.ContainerStatus{}
	}
	var errs field.ErrorList
	for _, before := range was {
		i, after := find(now, before.Name)
		if before.State.Running != nil && after.State.Running == nil {
			errs = append(errs, field.Forbidden(path.Index(i).Child("state"),
				"only jobd may say that a container does not run any more"))
		}
	}
	for _, s := range slices.Concat(was, now) {
		_, before := find(was, s.Name)
		i, after := find(now, s.Name)
		if before.RestartCount != after.RestartCount {
			return append(errs, field.Forbidden(path.Index(i).Child("restartCount"),
				"only jobd may change how often a container was started"))
		}
	}
	return errs
}
