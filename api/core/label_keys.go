package core

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// selectLike adds to selectors of other Pods the values that the Pod itself has for some keys: matchLabelKeys and
// mismatchLabelKeys of PodAffinityTerm (KEP-3633), and matchLabelKeys of TopologySpreadConstraint (KEP-3243).
func selectLike(pod *corev1.Pod) {
	if a := pod.Spec.Affinity; a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) {
		a = a.DeepCopy() // a template may share it
		pod.Spec.Affinity = a
		if p := a.PodAffinity; p != nil {
			selectTermsLike(pod, p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
		}
		if p := a.PodAntiAffinity; p != nil {
			selectTermsLike(pod, p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
		}
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		c.LabelSelector = withValues(c.LabelSelector, pod.Labels, c.MatchLabelKeys, metav1.LabelSelectorOpIn)
	}
}

func selectTermsLike(pod *corev1.Pod, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
	complete := func(t *corev1.PodAffinityTerm) {
		t.LabelSelector = withValues(t.LabelSelector, pod.Labels, t.MatchLabelKeys, metav1.LabelSelectorOpIn)
		t.LabelSelector = withValues(t.LabelSelector, pod.Labels, t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn)
	}
	for i := range required {
		complete(&required[i])
	}
	for i := range preferred {
		complete(&preferred[i].PodAffinityTerm)
	}
}

// withValues returns a selector with an expression for each of the keys that there is a label of.
func withValues(
	s *metav1.LabelSelector, labels map[string]string, keys []string, operator metav1.LabelSelectorOperator,
) *metav1.LabelSelector {
	if s == nil || len(keys) == 0 {
		return s
	}
	s = s.DeepCopy()
	for _, key := range keys {
		if value, ok := labels[key]; ok {
			s.MatchExpressions = append(s.MatchExpressions,
				metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}})
		}
	}
	return s
}
