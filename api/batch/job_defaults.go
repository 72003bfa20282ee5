package batch

import (
	"maps"
	"math"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
)

// defaultBackoffLimit is the default of JobSpec.BackoffLimit for a Job without a back-off limit per index.
const defaultBackoffLimit = int32(6)

// SetJobDefaults fills in what a Job's manifest left out. Calling it again changes nothing.
func SetJobDefaults(job *batchv1.Job) {
	spec := &job.Spec
	// With parallelism alone the Job is a work queue: completions stays unset.
	if spec.Completions == nil && spec.Parallelism == nil {
		spec.Completions = ptr.To(int32(1))
	}
	setDefault(&spec.Parallelism, 1)
	limit := defaultBackoffLimit
	if spec.BackoffLimitPerIndex != nil {
		limit = math.MaxInt32
	}
	setDefault(&spec.BackoffLimit, limit)
	setDefault(&spec.CompletionMode, batchv1.NonIndexedCompletion)
	setDefault(&spec.Suspend, false)
	setDefault(&spec.ManualSelector, false)
	replacement := batchv1.TerminatingOrFailed
	if spec.PodFailurePolicy != nil {
		replacement = batchv1.Failed
		setPodConditionDefaults(spec.PodFailurePolicy)
	}
	setDefault(&spec.PodReplacementPolicy, replacement)
	core.SetPodTemplateDefaults(&spec.Template)

	// The template's labels are incomplete until they are generated: PrepareJob copies those of a new Job.
	if _, generated := spec.Template.Labels[batchv1.ControllerUidLabel]; generated || *spec.ManualSelector {
		copyTemplateLabels(job)
	}
}

func setPodConditionDefaults(policy *batchv1.PodFailurePolicy) {
	if policy == nil {
		return
	}
	for _, rule := range policy.Rules {
		for i := range rule.OnPodConditions {
			if rule.OnPodConditions[i].Status == "" {
				rule.OnPodConditions[i].Status = corev1.ConditionTrue
			}
		}
	}
}

// copyTemplateLabels copies the labels of the template to a Job without labels.
func copyTemplateLabels(job *batchv1.Job) {
	if len(job.Labels) == 0 && len(job.Spec.Template.Labels) > 0 {
		job.Labels = maps.Clone(job.Spec.Template.Labels)
	}
}

func setDefault[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
