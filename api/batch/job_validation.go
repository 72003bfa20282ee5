package batch

import (
	"fmt"
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/notices"
)

// Limits that bound the lists of indexes in the status, and the cost of counting by index.
const (
	maxIndexedParallelism = 100_000
	maxFailedIndexes      = 100_000
	// manyCompletions is the number of completions above which limits per index have lower bounds.
	manyCompletions                 = 100_000
	maxParallelismManyCompletions   = 10_000
	maxFailedIndexesManyCompletions = 10_000

	maxManagedByLength = 63
)

const needsIndexed = "requires indexed completion mode"

// ValidateJob checks a new Job, after PrepareJob.
func ValidateJob(job *batchv1.Job) field.ErrorList {
	metadata := field.NewPath("metadata")
	errs := validation.ValidateObjectMeta(givenMetadata(job), true, validation.NameIsDNSSubdomain, metadata)
	errs = append(errs, validateBackoffAnnotations(job.Annotations, metadata.Child("annotations"))...)
	errs = append(errs, validatePrioritized(job.Annotations, nil, metadata.Child("annotations"))...)
	errs = append(errs, ValidatePaused(job.Annotations, nil, metadata.Child("annotations"))...)
	errs = append(errs, validateOOMMemory(job.Annotations, &job.Spec, metadata.Child("annotations"))...)
	errs = append(errs, validateIndexEnv(job.Annotations, &job.Spec, metadata.Child("annotations"))...)
	errs = append(errs, validateArray(job.Annotations, &job.Spec, metadata.Child("annotations"))...)
	// PrepareJob leaves no new Job one that says so: it is of one that is stored.
	waited := job.Annotations[ResumedAnnotation] != ""
	errs = append(errs, validateAfter(job.Annotations, &job.Spec, waited, metadata.Child("annotations"))...)
	errs = append(errs, validateStartAt(job.Annotations, &job.Spec, waited, metadata.Child("annotations"))...)
	errs = append(errs, core.ValidateConcurrency(job.Annotations, metadata.Child("annotations"), false)...)
	errs = append(errs, core.ValidateWindow(job.Annotations, metadata.Child("annotations"))...)
	errs = append(errs, core.ValidatePreemptBy(job.Annotations, metadata.Child("annotations"))...)
	errs = append(errs, validateKeepLogs(job.Annotations, metadata.Child("annotations"))...)
	errs = append(errs, validateOverflow(job.Annotations, &job.Spec, metadata.Child("annotations"))...)
	errs = append(errs, notices.Validate(job.Annotations, metadata.Child("annotations"))...)
	errs = append(errs, validateGeneratedLabels(job)...)
	errs = append(errs, ValidateJobSpec(&job.Spec, field.NewPath("spec"))...)
	errs = append(errs, validateSelector(&job.Spec, field.NewPath("spec"))...)
	if completions := ptr.Deref(job.Spec.Completions, 0); isIndexed(&job.Spec) && completions > 0 {
		// The index is part of the host name: that of the last pod has to be valid too.
		last := fmt.Sprintf("%s-%d", job.Name, completions-1)
		if len(utilvalidation.IsDNS1123Label(last)) > 0 {
			errs = append(errs, field.Invalid(metadata.Child("name"), job.Name,
				"will not able to create pod with invalid DNS label: "+last))
		}
	}
	return errs
}

// givenMetadata returns the metadata of a new Job without the labels that were generated for its template and copied
// from there: they are checked in the template. So the error of a name of 64 characters, which is no valid label, is
// returned once.
func givenMetadata(job *batchv1.Job) *metav1.ObjectMeta {
	given := job.ObjectMeta
	if job.UID == "" || job.Labels[batchv1.ControllerUidLabel] != string(job.UID) {
		return &given // no client knows the uid
	}
	given.Labels = maps.Clone(given.Labels)
	for label, value := range generatedLabels(job) {
		if given.Labels[label] == value {
			delete(given.Labels, label)
		}
	}
	return &given
}

// validateGeneratedLabels refuses a manifest that sets one of the generated labels to another value.
func validateGeneratedLabels(job *batchv1.Job) field.ErrorList {
	if ptr.Deref(job.Spec.ManualSelector, false) || job.Spec.Selector == nil {
		return nil
	}
	var errs field.ErrorList
	if job.UID == "" {
		errs = append(errs, field.Required(field.NewPath("metadata", "uid"), ""))
	}
	expected := generatedLabels(job)
	path := field.NewPath("spec", "template", "metadata", "labels")
	for _, label := range [...]string{
		legacyControllerUIDLabel, legacyJobNameLabel, batchv1.ControllerUidLabel, batchv1.JobNameLabel,
	} {
		must := fmt.Sprintf("must be '%s'", expected[label])
		switch value, ok := job.Spec.Template.Labels[label]; {
		case !ok:
			errs = append(errs, field.Required(path.Key(label), must))
		case value != expected[label]:
			errs = append(errs, field.Invalid(path.Key(label), job.Spec.Template.Labels, must))
		}
	}
	if s, err := metav1.LabelSelectorAsSelector(job.Spec.Selector); err == nil && !s.Matches(labels.Set(expected)) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "selector"), job.Spec.Selector,
			"`selector` not auto-generated"))
	}
	return errs
}

func validateSelector(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.Selector == nil {
		errs = append(errs, field.Required(path.Child("selector"), ""))
	} else if errs = core.BoundSelector(spec.Selector, path.Child("selector")); len(errs) > 0 {
		return errs
	} else {
		errs = metav1validation.ValidateLabelSelector(spec.Selector, metav1validation.LabelSelectorValidationOptions{},
			path.Child("selector"))
	}
	if s, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil &&
		!s.Matches(labels.Set(spec.Template.Labels)) {
		errs = append(errs, field.Invalid(path.Child("template", "metadata", "labels"), spec.Template.Labels,
			"`selector` does not match template `labels`"))
	}
	return errs
}

// ValidateJobSpec checks a spec except for its selector, which a CronJob's template does not have yet.
func ValidateJobSpec(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	errs := validateCounts(spec, path)
	if spec.ManagedBy != nil {
		errs = append(errs, utilvalidation.IsDomainPrefixedPath(path.Child("managedBy"), *spec.ManagedBy)...)
		if len(*spec.ManagedBy) > maxManagedByLength {
			errs = append(errs, field.TooLong(path.Child("managedBy"), *spec.ManagedBy, maxManagedByLength))
		}
		if why := clusters.Misnamed(*spec.ManagedBy); why != "" {
			errs = append(errs, field.Invalid(path.Child("managedBy"), *spec.ManagedBy, why))
		}
	}
	errs = append(errs, validateCompletionMode(spec, path)...)
	if spec.PodFailurePolicy != nil {
		errs = append(errs, validatePodFailurePolicy(spec, path.Child("podFailurePolicy"))...)
	}
	if spec.SuccessPolicy != nil {
		errs = append(errs, validateSuccessPolicy(spec, path.Child("successPolicy"))...)
	}
	errs = append(errs, validatePodReplacementPolicy(spec, path.Child("podReplacementPolicy"))...)
	errs = append(errs, validateScheduling(spec, path.Child("scheduling"))...)
	errs = append(errs, core.ValidatePodTemplateSpec(&spec.Template, path.Child("template"))...)
	return append(errs, validateRestartPolicy(spec, path.Child("template", "spec", "restartPolicy"))...)
}

func validateCounts(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, count := range []struct {
		name  string
		value *int64
	}{
		{"parallelism", widen(spec.Parallelism)},
		{"completions", widen(spec.Completions)},
		{"activeDeadlineSeconds", spec.ActiveDeadlineSeconds},
		{"backoffLimit", widen(spec.BackoffLimit)},
		{"ttlSecondsAfterFinished", widen(spec.TTLSecondsAfterFinished)},
		{"backoffLimitPerIndex", widen(spec.BackoffLimitPerIndex)},
		{"maxFailedIndexes", widen(spec.MaxFailedIndexes)},
	} {
		if count.value != nil {
			errs = append(errs, validation.ValidateNonnegativeField(*count.value, path.Child(count.name))...)
		}
	}
	if spec.MaxFailedIndexes != nil && spec.BackoffLimitPerIndex == nil {
		errs = append(errs, field.Required(path.Child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"))
	}
	return errs
}

func validateCompletionMode(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	switch ptr.Deref(spec.CompletionMode, batchv1.NonIndexedCompletion) {
	case batchv1.IndexedCompletion:
		return validateIndexed(spec, path)
	case batchv1.NonIndexedCompletion:
		var errs field.ErrorList
		if spec.BackoffLimitPerIndex != nil {
			errs = append(errs, field.Invalid(path.Child("backoffLimitPerIndex"), *spec.BackoffLimitPerIndex,
				needsIndexed))
		}
		if spec.MaxFailedIndexes != nil {
			errs = append(errs, field.Invalid(path.Child("maxFailedIndexes"), *spec.MaxFailedIndexes, needsIndexed))
		}
		return errs
	}
	return field.ErrorList{field.NotSupported(path.Child("completionMode"), spec.CompletionMode,
		[]batchv1.CompletionMode{batchv1.NonIndexedCompletion, batchv1.IndexedCompletion})}
}

func validateIndexed(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	atMost := func(name string, value *int32, limit int32, detail string) {
		if value != nil && *value > limit {
			errs = append(errs, field.Invalid(path.Child(name), *value, detail))
		}
	}
	if spec.Completions == nil {
		errs = append(errs, field.Required(path.Child("completions"), "when completion mode is Indexed"))
	}
	atMost("parallelism", spec.Parallelism, maxIndexedParallelism,
		fmt.Sprintf("must be less than or equal to %d when completion mode is Indexed", maxIndexedParallelism))
	if spec.Completions != nil {
		atMost("maxFailedIndexes", spec.MaxFailedIndexes, *spec.Completions,
			"must be less than or equal to completions")
	}
	atMost("maxFailedIndexes", spec.MaxFailedIndexes, maxFailedIndexes,
		fmt.Sprintf("must be less than or equal to %d", maxFailedIndexes))

	if ptr.Deref(spec.Completions, 0) > manyCompletions && spec.BackoffLimitPerIndex != nil {
		if spec.MaxFailedIndexes == nil {
			errs = append(errs, field.Required(path.Child("maxFailedIndexes"),
				fmt.Sprintf("must be specified when completions is above %d", manyCompletions)))
		}
		const detail = "must be less than or equal to %d when completions are above %d and used with backoff limit per index"
		atMost("parallelism", spec.Parallelism, maxParallelismManyCompletions,
			fmt.Sprintf(detail, maxParallelismManyCompletions, manyCompletions))
		atMost("maxFailedIndexes", spec.MaxFailedIndexes, maxFailedIndexesManyCompletions,
			fmt.Sprintf(detail, maxFailedIndexesManyCompletions, manyCompletions))
	}
	return errs
}

// validatePodReplacementPolicy refuses unknown policies, and TerminatingOrFailed with a pod failure policy, which can
// be applied only to pods that have ended.
func validatePodReplacementPolicy(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	if spec.PodReplacementPolicy == nil {
		return nil
	}
	supported := []batchv1.PodReplacementPolicy{batchv1.Failed, batchv1.TerminatingOrFailed}
	if spec.PodFailurePolicy != nil {
		supported = supported[:1]
	}
	return oneOf(path, *spec.PodReplacementPolicy, supported)
}

func validateRestartPolicy(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	switch policy := spec.Template.Spec.RestartPolicy; policy {
	case corev1.RestartPolicyNever:
		return nil
	case corev1.RestartPolicyOnFailure:
		if spec.PodFailurePolicy == nil {
			return nil
		}
		return field.ErrorList{field.Invalid(path, policy,
			`only "Never" is supported when podFailurePolicy is specified`)}
	case corev1.RestartPolicyAlways, "": // Always is also the default
		return field.ErrorList{field.Required(path, `valid values: "OnFailure", "Never"`)}
	default:
		return field.ErrorList{field.NotSupported(path, policy,
			[]corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever})}
	}
}

func isIndexed(spec *batchv1.JobSpec) bool {
	return ptr.Deref(spec.CompletionMode, batchv1.NonIndexedCompletion) == batchv1.IndexedCompletion
}

func widen(n *int32) *int64 {
	if n == nil {
		return nil
	}
	return ptr.To(int64(*n))
}
