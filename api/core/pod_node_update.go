package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateNodeConstraintsUpdate checks what a pod with scheduling gates newly asks of its node (KEP-3838). Whoever opens
// the gates may narrow down where the pod runs, and not undo what its author has asked for.
func validateNodeConstraintsUpdate(now, old *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	selector := path.Child("nodeSelector")
	for key, value := range old.NodeSelector {
		if is, ok := now.NodeSelector[key]; !ok || is != value {
			errs = append(errs, field.Invalid(selector, now.NodeSelector,
				"only additions to spec.nodeSelector are allowed (no mutations or deletions)"))
			break
		}
	}
	if !equality.Semantic.DeepEqual(now.NodeSelector, old.NodeSelector) {
		errs = append(errs, metav1validation.ValidateLabels(now.NodeSelector, selector)...)
	}
	if is, was := nodeAffinity(now), nodeAffinity(old); !equality.Semantic.DeepEqual(is, was) {
		affinity := path.Child("affinity")
		errs = append(errs, validateAffinity(&corev1.Affinity{NodeAffinity: is}, affinity)...)
		errs = append(errs, validateNodeTermsUpdate(requiredTerms(is), requiredTerms(was),
			affinity.Child("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"))...)
	}
	return errs
}

// validateNodeTermsUpdate refuses that a pod may run where it could not before: a node has to match one of the terms, and
// everything in it. Without terms any node matched.
func validateNodeTermsUpdate(now, old []corev1.NodeSelectorTerm, path *field.Path) field.ErrorList {
	if len(old) > 0 && len(now) != len(old) {
		return field.ErrorList{field.Invalid(path, now, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")}
	}
	var errs field.ErrorList
	for i := range old {
		is, was := &now[i], &old[i]
		// A term without requirements matches no node.
		matchesNone := len(was.MatchExpressions)+len(was.MatchFields) == 0 && len(is.MatchExpressions)+len(is.MatchFields) > 0
		if matchesNone || !begins(is.MatchExpressions, was.MatchExpressions) || !begins(is.MatchFields, was.MatchFields) {
			errs = append(errs, field.Invalid(path.Index(i), *is, "only additions are allowed (no mutations or deletions)"))
		}
	}
	return errs
}

// begins reports whether a list begins with all of another.
func begins(list, with []corev1.NodeSelectorRequirement) bool {
	return len(list) >= len(with) && (len(with) == 0 || equality.Semantic.DeepEqual(list[:len(with)], with))
}

func nodeAffinity(spec *corev1.PodSpec) *corev1.NodeAffinity {
	if spec.Affinity == nil {
		return nil
	}
	return spec.Affinity.NodeAffinity
}

// withNodeAffinity returns an affinity with the part for nodes that the old spec has. If nothing is in it, it is missing as
// there or empty as there.
func withNodeAffinity(a *corev1.Affinity, old *corev1.PodSpec) *corev1.Affinity {
	out := corev1.Affinity{NodeAffinity: nodeAffinity(old)}
	if a != nil {
		out.PodAffinity, out.PodAntiAffinity = a.PodAffinity, a.PodAntiAffinity
	}
	if old.Affinity == nil && out == (corev1.Affinity{}) {
		return nil
	}
	return &out
}

func requiredTerms(a *corev1.NodeAffinity) []corev1.NodeSelectorTerm {
	if a == nil || a.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	return a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}
