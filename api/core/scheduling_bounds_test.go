package core

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestSelectorsOfAPodAreBounded(t *testing.T) {
	many := func(prefix string, n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("%s%d", prefix, i))
		}
		return all
	}
	selector := func(values int) *metav1.LabelSelector {
		return &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: metav1.LabelSelectorOpIn, Values: many("v", values)}},
		}
	}
	podTerms := func(n, values int) (all []corev1.PodAffinityTerm) {
		for range n {
			all = append(all, corev1.PodAffinityTerm{TopologyKey: "kubernetes.io/hostname", LabelSelector: selector(values)})
		}
		return all
	}
	affinity := func(a *corev1.Affinity) field.ErrorList {
		return validateAffinity(a, field.NewPath("spec", "affinity"))
	}
	for name, tc := range map[string]struct {
		errs field.ErrorList
		want string
	}{
		"as many terms as there may be": {affinity(&corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: podTerms(100, 1)}}), "[]"},
		"one more": {affinity(&corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: podTerms(101, 1)}}), "[spec.affinity.podAntiAffinity: Too many: 101: must have at most 100 items]"},
		"preferences count": {affinity(&corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: podTerms(50, 1),
			PreferredDuringSchedulingIgnoredDuringExecution: make(
				[]corev1.WeightedPodAffinityTerm, 51,
			)}}), "[spec.affinity.podAffinity: Too many: 101: must have at most 100 items]"},
		"as many values as there may be": {affinity(&corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: podTerms(10, 99)}}), "[]"},
		"and more": {affinity(&corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: podTerms(10, 100)}}),
			"[spec.affinity.podAntiAffinity: Invalid value: must not name more than 1000 labels, values and namespaces in all, and names 1010]"},
		"namespaces": {affinity(&corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "k", Namespaces: many("n", 1001)}}}}),
			"podAffinity: Invalid value: must not name more than 1000"},
		"nodes": {affinity(&corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "k", Operator: corev1.NodeSelectorOpIn, Values: many("v", 10_000)}}},
			}}}}),
			"nodeAffinity: Invalid value: must not name more than 10000"},
		"constraints": {validateSpread(make([]corev1.TopologySpreadConstraint, 101), field.NewPath("spec", "topologySpreadConstraints")),
			"[spec.topologySpreadConstraints: Too many: 101: must have at most 100 items]"},
		"selectors of constraints": {validateSpread(
			[]corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "k", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector(1000)}},
			field.NewPath("spec", "topologySpreadConstraints"),
		),
			"must not name more than 1000"},
	} {
		if got := fmt.Sprint(tc.errs); !strings.Contains(got, tc.want) {
			t.Errorf("%s: %.300s, want %s", name, got, tc.want)
		}
	}
}

func TestSelectorsOfPodsAreBounded(t *testing.T) {
	for n, want := range map[int]int{999: 0, 1000: 1} {
		s := &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: metav1.LabelSelectorOpNotIn, Values: make([]string, n)}},
		}
		if errs := BoundSelector(s, field.NewPath("spec", "selector")); len(errs) != want {
			t.Errorf("%d values: %v", n, errs)
		}
	}
}
