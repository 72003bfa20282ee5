package core

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/clusters"
)

// ValidatePod checks a new Pod, after PreparePod: a client's, or one that was changed after it was made from a template.
func ValidatePod(pod *corev1.Pod) field.ErrorList {
	errs := validation.ValidateObjectMeta(&pod.ObjectMeta, true, validation.NameIsDNSSubdomain,
		field.NewPath("metadata"))
	if pod.Spec.NodeName != "" && len(pod.Spec.SchedulingGates) > 0 {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "nodeName"),
			"cannot be set until all schedulingGates have been cleared"))
	}
	if pod.Spec.NodeName == "" && clusters.IsScheduler(pod.Spec.SchedulerName) {
		errs = append(errs, field.Required(field.NewPath("spec", "nodeName"), "a pod of this schedulerName shows one of a cluster, which is its node"))
	}
	errs = append(errs, validateAppArmorAnnotations(pod.Annotations, field.NewPath("metadata", "annotations"),
		&pod.Spec, field.NewPath("spec"))...)
	errs = append(errs, validateKeepFiles(pod.Annotations, &pod.Spec, field.NewPath("metadata", "annotations"))...)
	errs = append(errs, validateSignal(pod.Annotations, field.NewPath("metadata", "annotations"))...)
	errs = append(errs, validatePodSpec(&pod.Spec, field.NewPath("spec"))...)
	if len(pod.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "ephemeralContainers"), "cannot be set on create"))
	}
	return errs
}

// ValidatePodTemplateSpec checks the template of pods that are yet to be made; path is the template's.
func ValidatePodTemplateSpec(template *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	// Clusters leave "metadata" out of these two paths.
	errs := metav1validation.ValidateLabels(template.Labels, path.Child("labels"))
	errs = append(errs, validation.ValidateAnnotations(template.Annotations, path.Child("annotations"))...)
	errs = append(errs, validateAppArmorAnnotations(template.Annotations, path.Child("annotations"), &template.Spec,
		path.Child("spec"))...)
	errs = append(errs, validateKeepFiles(template.Annotations, &template.Spec, path.Child("annotations"))...)
	errs = append(errs, validateSignal(template.Annotations, path.Child("annotations"))...)
	errs = append(errs, validatePodSpec(&template.Spec, path.Child("spec"))...)
	if len(template.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(path.Child("spec", "ephemeralContainers"),
			"ephemeral containers not allowed in pod template"))
	}
	return errs
}

func validatePodSpec(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	pod := newPodContext(spec)
	errs := validateVolumes(spec.Volumes, path.Child("volumes"))
	// Init containers are checked last of the two, so that the second use of a name, the one refused, is theirs.
	errs = append(errs, pod.containers(path.Child("containers"))...)
	errs = append(errs, pod.initContainers(path.Child("initContainers"))...)
	errs = append(errs, pod.ephemeralContainers(path.Child("ephemeralContainers"))...)
	errs = append(errs, boundContainers(spec, path)...)
	errs = append(errs, boundMounts(spec, path)...)
	errs = append(errs, validatePodResources(spec, path.Child("resources"))...)
	errs = append(errs, requiredOneOf(path.Child("restartPolicy"), spec.RestartPolicy,
		[]corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure,
			corev1.RestartPolicyNever})...)
	errs = append(errs, metav1validation.ValidateLabels(spec.NodeSelector, path.Child("nodeSelector"))...)
	if spec.HostPID && ptr.Deref(spec.ShareProcessNamespace, false) {
		errs = append(errs, field.Invalid(path.Child("shareProcessNamespace"), true,
			"ShareProcessNamespace and HostPID cannot both be enabled"))
	}
	errs = append(errs, validatePodSecurityContext(spec, path.Child("securityContext"))...)
	errs = append(errs, validateAffinity(spec.Affinity, path.Child("affinity"))...)
	errs = append(errs, validateDNS(spec, path)...)
	errs = append(errs, validateGates(spec.SchedulingGates, path.Child("schedulingGates"))...)
	errs = append(errs, validateSchedulingGroup(spec.SchedulingGroup, path.Child("schedulingGroup"))...)
	errs = append(errs, validateSpread(spec.TopologySpreadConstraints, path.Child("topologySpreadConstraints"))...)
	errs = append(errs, ValidateTolerations(spec.Tolerations, path.Child("tolerations"))...)
	errs = append(errs, ValidateOverhead(spec.Overhead, path.Child("overhead"))...)
	errs = append(errs, validateHostAliases(spec.HostAliases, path.Child("hostAliases"))...)
	errs = append(errs, validateHostUsers(spec, path)...)
	errs = append(errs, validateNames(spec, path)...)
	errs = append(errs, validateHostnameOverride(spec, path)...)
	errs = append(errs, validateOS(spec, path)...)
	errs = append(errs, validateHostProcess(spec, path)...)
	if d := spec.ActiveDeadlineSeconds; d != nil && (*d < 1 || *d > math.MaxInt32) {
		errs = append(errs, field.Invalid(path.Child("activeDeadlineSeconds"), *d,
			utilvalidation.InclusiveRangeError(1, math.MaxInt32)))
	}
	if p := spec.PreemptionPolicy; p != nil {
		errs = append(errs, oneOf(path.Child("preemptionPolicy"), *p,
			[]corev1.PreemptionPolicy{corev1.PreemptLowerPriority, corev1.PreemptNever})...)
	}
	return append(errs, unsupported(spec, path)...)
}

// maxHostname is how long the kernel lets the name of a host be.
const maxHostname = 64

// validateHostnameOverride checks the whole name that a Pod gives itself (KEP-4762).
func validateHostnameOverride(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	if spec.HostnameOverride == nil {
		return nil
	}
	var errs field.ErrorList
	name, path := *spec.HostnameOverride, path.Child("hostnameOverride")
	if ptr.Deref(spec.SetHostnameAsFQDN, false) {
		errs = append(errs, field.Forbidden(path, "may not be specified when setHostnameAsFQDN is true"))
	}
	if spec.HostNetwork {
		errs = append(errs, field.Forbidden(path, "may not be specified when hostNetwork is true"))
	}
	if len(name) > maxHostname {
		errs = append(errs, field.TooLong(path, name, maxHostname))
	}
	return append(errs, invalid(path, name, utilvalidation.IsDNS1123Subdomain(name))...)
}

// validateNames checks the fields of a spec that name other objects and the like.
func validateNames(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range []struct {
		field, value string
		rule         func(string) []string
	}{
		{"serviceAccountName", spec.ServiceAccountName, utilvalidation.IsDNS1123Subdomain},
		{"nodeName", spec.NodeName, utilvalidation.IsDNS1123Subdomain},
		{"hostname", spec.Hostname, utilvalidation.IsDNS1123Label},
		{"subdomain", spec.Subdomain, utilvalidation.IsDNS1123Label},
		{"priorityClassName", spec.PriorityClassName, utilvalidation.IsDNS1123Subdomain},
	} {
		if name.value != "" {
			errs = append(errs, invalid(path.Child(name.field), name.value, name.rule(name.value))...)
		}
	}
	if name := spec.RuntimeClassName; name != nil { // an empty one counts as a name too
		errs = append(errs, invalid(path.Child("runtimeClassName"), *name, utilvalidation.IsDNS1123Subdomain(*name))...)
	}
	for i, gate := range spec.ReadinessGates {
		errs = append(errs,
			invalid(path.Child("readinessGates").Index(i).Child("conditionType"), string(gate.ConditionType),
				utilvalidation.IsQualifiedName(string(gate.ConditionType)))...)
	}
	return errs
}
