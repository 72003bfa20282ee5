package job

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/jobd/jobd/api/batch"
)

var someTime = time.Date(2026, 11, 20, 13, 33, 11, 900e6, time.UTC)

// drawJob makes a Job as the API stores one.
func drawJob(t *rapid.T) *batchv1.Job {
	is := func(label string) bool { return rapid.Bool().Draw(t, label) }
	rarely := func(label string) bool { return rapid.IntRange(0, 4).Draw(t, label) == 0 }
	number := func(label string, low, high int32) *int32 {
		return ptr.To(rapid.Int32Range(low, high).Draw(t, label))
	}
	labels := map[string]string{"job": "j"}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "j", UID: "11111111-0000-4000-8000-000000000000"},
		Spec: batchv1.JobSpec{
			Parallelism:          number("parallelism", 0, 5),
			BackoffLimit:         number("backoffLimit", 0, 8),
			CompletionMode:       ptr.To(batchv1.NonIndexedCompletion),
			Suspend:              ptr.To(rarely("suspend")),
			PodReplacementPolicy: ptr.To(batchv1.TerminatingOrFailed),
			Selector:             &metav1.LabelSelector{MatchLabels: labels},
		},
	}
	s := &job.Spec
	s.Template.Labels = labels
	s.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	s.Template.Spec.Containers = []corev1.Container{{Name: "c"}}
	if is("completions") {
		s.Completions = number("completions", 0, 7)
	}
	if is("Indexed") {
		s.CompletionMode = ptr.To(batchv1.IndexedCompletion)
		s.Completions = number("completions", 0, 7)
		if is("backoffLimitPerIndex") {
			s.BackoffLimitPerIndex = number("backoffLimitPerIndex", 0, 2)
			s.BackoffLimit = ptr.To[int32](1<<31 - 1)
			if is("maxFailedIndexes") {
				s.MaxFailedIndexes = number("maxFailedIndexes", 0, *s.Completions)
			}
		}
		if n := *s.Completions; n > 0 && rarely("successPolicy") {
			rule := batchv1.SuccessPolicyRule{}
			if is("succeededIndexes") {
				rule.SucceededIndexes = ptr.To(fmt.Sprintf("%d-%d", n/2, n-1))
			} else {
				rule.SucceededCount = number("succeededCount", 1, n)
			}
			s.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{rule}}
		}
	}
	if *s.CompletionMode == batchv1.IndexedCompletion && rarely("large") {
		// Every other index is done: the list is long, so that the status is not written for each change.
		var done Indexes
		for i := int32(0); i < 900; i += 2 {
			done.Add(i)
		}
		s.Completions, s.SuccessPolicy = ptr.To[int32](900), nil
		job.Status.CompletedIndexes, job.Status.Succeeded = done.String(), int32(done.Len())
		job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	switch {
	case rarely("OnFailure"):
		s.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	case is("podFailurePolicy"):
		s.PodReplacementPolicy = ptr.To(batchv1.Failed)
		s.PodFailurePolicy = &batchv1.PodFailurePolicy{}
		code := func(c int32, a batchv1.PodFailurePolicyAction) {
			s.PodFailurePolicy.Rules = append(s.PodFailurePolicy.Rules, batchv1.PodFailurePolicyRule{
				Action: a,
				OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
					Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{c},
				},
			})
		}
		code(42, batchv1.PodFailurePolicyActionFailJob)
		code(43, batchv1.PodFailurePolicyActionIgnore)
		code(44, batchv1.PodFailurePolicyActionCount)
		if s.BackoffLimitPerIndex != nil {
			code(45, batchv1.PodFailurePolicyActionFailIndex)
		}
		s.PodFailurePolicy.Rules = append(s.PodFailurePolicy.Rules, batchv1.PodFailurePolicyRule{
			Action:          batchv1.PodFailurePolicyActionIgnore,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
		})
	case is("podReplacementPolicy Failed"):
		s.PodReplacementPolicy = ptr.To(batchv1.Failed)
	}
	if s.Template.Spec.RestartPolicy == corev1.RestartPolicyNever && rarely("more memory") {
		job.Annotations = map[string]string{batch.OOMMemoryFactorAnnotation: "1.5", batch.OOMMemoryMaxAnnotation: "1Gi"}
		s.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
	}
	if rarely("activeDeadlineSeconds") {
		s.ActiveDeadlineSeconds = ptr.To(rapid.Int64Range(0, 200).Draw(t, "activeDeadlineSeconds"))
	}
	return job
}
