package batch

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/notices"
)

// validateJobUpdate checks a changed Job except for its status.
func validateJobUpdate(job, old *batchv1.Job) field.ErrorList {
	metadata, path := field.NewPath("metadata"), field.NewPath("spec")
	errs := validation.ValidateObjectMetaUpdate(&job.ObjectMeta, &old.ObjectMeta, metadata)
	errs = append(errs, validateBackoffAnnotations(job.Annotations, metadata.Child("annotations"))...)
	errs = append(errs, validatePrioritized(job.Annotations, old.Annotations, metadata.Child("annotations"))...)
	errs = append(errs, ValidatePaused(job.Annotations, old.Annotations, metadata.Child("annotations"))...)
	errs = append(errs, validateOOMMemory(job.Annotations, &job.Spec, metadata.Child("annotations"))...)
	errs = append(errs, validateIndexEnvUpdate(job, old, metadata.Child("annotations"))...)
	errs = append(errs, validateArrayUpdate(job, old, metadata.Child("annotations"))...)
	errs = append(errs, validateHoldUpdate(AfterAnnotation, validateAfter, job, old, metadata.Child("annotations"))...)
	errs = append(errs, validateHoldUpdate(StartAtAnnotation, validateStartAt, job, old, metadata.Child("annotations"))...)
	errs = append(errs, core.ValidateConcurrency(job.Annotations, metadata.Child("annotations"), false)...)
	errs = append(errs, core.ValidateWindow(job.Annotations, metadata.Child("annotations"))...)
	errs = append(errs, core.ValidatePreemptBy(job.Annotations, metadata.Child("annotations"))...)
	errs = append(errs, validateKeepLogs(job.Annotations, metadata.Child("annotations"))...)
	errs = append(errs, validateOverflow(job.Annotations, &job.Spec, metadata.Child("annotations"))...)
	errs = append(errs, validateMoving(job)...)
	errs = append(errs, notices.Validate(job.Annotations, metadata.Child("annotations"))...)
	errs = append(errs, ValidateJobSpec(&job.Spec, path)...)
	errs = append(errs, validateSelector(&job.Spec, path)...)

	now, was := &job.Spec, &old.Spec
	errs = append(errs, validateCompletionsUpdate(now, was, path.Child("completions"))...)
	immutable := func(name string, value, before any) {
		errs = append(errs, validation.ValidateImmutableField(value, before, path.Child(name))...)
	}
	immutable("selector", now.Selector, was.Selector)
	errs = append(errs, validateTemplateUpdate(&now.Template, old, path.Child("template"))...)
	immutable("completionMode", now.CompletionMode, was.CompletionMode)
	immutable("podFailurePolicy", printedFailurePolicy(now.PodFailurePolicy),
		printedFailurePolicy(was.PodFailurePolicy))
	immutable("backoffLimitPerIndex", now.BackoffLimitPerIndex, was.BackoffLimitPerIndex)
	immutable("managedBy", now.ManagedBy, was.ManagedBy)
	immutable("successPolicy", printedSuccessPolicy(now.SuccessPolicy), printedSuccessPolicy(was.SuccessPolicy))
	return append(errs, validateSchedulingUpdate(now.Scheduling, was.Scheduling, path.Child("scheduling"))...)
}

// validateCompletionsUpdate lets an Indexed Job grow and shrink as long as all its indexes run at once.
func validateCompletionsUpdate(spec, old *batchv1.JobSpec, path *field.Path) field.ErrorList {
	switch {
	case !isIndexed(spec):
		return validation.ValidateImmutableField(spec.Completions, old.Completions, path)
	case equality.Semantic.DeepEqual(spec.Completions, old.Completions):
		return nil
	case spec.Completions == nil: // refused for an Indexed Job anyway
		return nil
	case *spec.Completions != ptr.Deref(spec.Parallelism, -1):
		return field.ErrorList{field.Invalid(path, spec.Completions,
			"can only be modified in tandem with spec.parallelism")}
	}
	return nil
}

// validateTemplateUpdate lets a Job that is suspended and has no pods change the scheduling, the labels and the
// resources of its pods.
func validateTemplateUpdate(template *corev1.PodTemplateSpec, old *batchv1.Job, path *field.Path) field.ErrorList {
	if !templateMutable(old) {
		return validation.ValidateImmutableField(template, &old.Spec.Template, path)
	}
	spec, was := &template.Spec, old.Spec.Template.Spec.DeepCopy()
	was.NodeSelector, was.Tolerations, was.SchedulingGates = spec.NodeSelector, spec.Tolerations, spec.SchedulingGates
	was.Affinity = withNodeAffinity(was.Affinity, spec.Affinity)
	copyResources(was.Containers, spec.Containers)
	copyResources(was.InitContainers, spec.InitContainers)
	return validation.ValidateImmutableField(spec, was, path.Child("spec"))
}

func templateMutable(job *batchv1.Job) bool {
	if !ptr.Deref(job.Spec.Suspend, false) {
		return false
	}
	return job.Status.StartTime == nil || ConditionTrue(job.Status.Conditions, batchv1.JobSuspended) &&
		job.Status.Active == 0
}

// withNodeAffinity returns the old affinity with the node affinity of the new one.
func withNodeAffinity(old, affinity *corev1.Affinity) *corev1.Affinity {
	out := corev1.Affinity{}
	if old != nil {
		out = *old
	}
	out.NodeAffinity = nil
	if affinity != nil {
		out.NodeAffinity = affinity.NodeAffinity
	}
	if affinity == nil && out == (corev1.Affinity{}) {
		return nil
	}
	return &out
}

// copyResources copies the resources of containers that have kept their name.
func copyResources(to, from []corev1.Container) {
	if len(to) != len(from) {
		return
	}
	for i := range to {
		if to[i].Name == from[i].Name {
			to[i].Resources = from[i].Resources
		}
	}
}
