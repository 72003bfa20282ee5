package jobset

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// validateUpdate checks a changed JobSet except for its status.
func validateUpdate(js, old *jobsetv1.JobSet) field.ErrorList {
	path := field.NewPath("spec")
	errs := apivalidation.ValidateObjectMetaUpdate(&js.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	errs = append(errs, validateAnnotations(js, had(old))...)
	errs = append(errs, validateTTL(js, path)...)
	now, was := &js.Spec, &old.Spec
	fixed := func(name string, value, before any) {
		if !equality.Semantic.DeepEqual(value, before) {
			errs = append(errs, field.Invalid(path.Child(name), "object", "Value is immutable"))
		}
	}
	fixed("network", now.Network, was.Network)
	fixed("successPolicy", now.SuccessPolicy, was.SuccessPolicy)
	fixed("failurePolicy", now.FailurePolicy, was.FailurePolicy)
	fixed("startupPolicy", now.StartupPolicy, was.StartupPolicy)
	fixed("volumeClaimPolicies", now.VolumeClaimPolicies, was.VolumeClaimPolicies)
	groups := now.ReplicatedJobs
	if Suspended(js) || Suspended(old) {
		groups = withMutable(groups, was.ReplicatedJobs)
	}
	if !equality.Semantic.DeepEqual(groups, was.ReplicatedJobs) {
		errs = append(errs, field.Invalid(path.Child("replicatedJobs"), "object", immutable(groups, was.ReplicatedJobs)))
	}
	errs = append(errs, apivalidation.ValidateImmutableField(now.ManagedBy, was.ManagedBy, path.Child("managedBy"))...)
	if !equality.Semantic.DeepEqual(now.Coordinator, was.Coordinator) {
		errs = append(errs, validateCoordinator(js)...)
	}
	if len(errs) == 0 {
		errs = validateJobs(js, old)
	}
	return errs
}

// had returns the annotations of a JobSet, which are not nil.
func had(js *jobsetv1.JobSet) map[string]string {
	if js.Annotations == nil {
		return map[string]string{}
	}
	return js.Annotations
}

// immutable says that groups cannot be changed, and of a change that a gate of JobSet would allow, which one.
func immutable(now, was []jobsetv1.ReplicatedJob) string {
	text := apivalidation.FieldImmutableErrorMsg
	if len(now) != len(was) {
		return text
	}
	sized := make([]jobsetv1.ReplicatedJob, len(now))
	for i := range now {
		now[i].DeepCopyInto(&sized[i])
		sized[i].Template.Spec.Parallelism = was[i].Template.Spec.Parallelism
		sized[i].Template.Spec.Completions = was[i].Template.Spec.Completions
	}
	if equality.Semantic.DeepEqual(sized, was) {
		text += fmt.Sprintf(": parallelism and completions cannot be changed"+gated, "ElasticJobSet")
	}
	return text
}

// withMutable returns groups with what may be changed while a JobSet is suspended as it was.
func withMutable(groups, was []jobsetv1.ReplicatedJob) []jobsetv1.ReplicatedJob {
	out := make([]jobsetv1.ReplicatedJob, len(groups))
	byName := make(map[string]*batchv1.JobTemplateSpec, len(was))
	for i := range was {
		byName[was[i].Name] = &was[i].Template
	}
	for i := range groups {
		groups[i].DeepCopyInto(&out[i])
		old := byName[groups[i].Name]
		if old == nil {
			continue
		}
		to, from := &out[i].Template.Spec.Template, &old.Spec.Template
		to.Labels, to.Annotations = from.Labels, from.Annotations
		to.Spec.NodeSelector, to.Spec.Tolerations, to.Spec.SchedulingGates =
			from.Spec.NodeSelector, from.Spec.Tolerations, from.Spec.SchedulingGates
	}
	return out
}

// sameTemplate reports whether a group makes the same Jobs as it did.
func sameTemplate(group, old *jobsetv1.ReplicatedJob) bool {
	return equality.Semantic.DeepEqual(group, old)
}

// validateStatusUpdate checks a write of the status.
func validateStatusUpdate(js, old *jobsetv1.JobSet) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&js.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	path := field.NewPath("status")
	errs = append(errs, metav1validation.ValidateConditions(js.Status.Conditions, path.Child("conditions"))...)
	if js.Status.Restarts < 0 {
		errs = append(errs, field.Invalid(path.Child("restarts"), js.Status.Restarts, "should be greater than or equal to 0"))
	}
	return errs
}
