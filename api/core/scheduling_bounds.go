package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What a pod asks of others is compared with every pod that waits, and all others wait for that. A cluster has no bounds
// here, and a scheduler that becomes slow; these are far from what anybody writes.
const (
	// maxPodTerms is how many terms of podAffinity or podAntiAffinity, and how many topologySpreadConstraints a pod may have.
	maxPodTerms = 100
	// maxSelected is how many labels and values all selectors in one of these may name.
	maxSelected = 1000
	// maxNodeSelected is how many labels and values all terms of nodeAffinity may name. They are compared with one node.
	maxNodeSelected = 10_000
)

// boundAffinity refuses affinity of more terms, or more labels and values in them, than can be looked at.
func boundAffinity(a *corev1.Affinity, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if n := a.NodeAffinity; n != nil {
		named := 0
		count := func(t *corev1.NodeSelectorTerm) {
			named++
			for _, list := range [][]corev1.NodeSelectorRequirement{t.MatchExpressions, t.MatchFields} {
				for i := range list {
					named += 1 + len(list[i].Values)
				}
			}
		}
		if s := n.RequiredDuringSchedulingIgnoredDuringExecution; s != nil {
			for i := range s.NodeSelectorTerms {
				count(&s.NodeSelectorTerms[i])
			}
		}
		for i := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			count(&n.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference)
		}
		errs = append(errs, boundSelected(named, maxNodeSelected, path.Child("nodeAffinity"))...)
	}
	of := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, path *field.Path) {
		if terms := len(required) + len(preferred); terms > maxPodTerms {
			errs = append(errs, field.TooMany(path, terms, maxPodTerms))
			return
		}
		named := 0
		for i := range required {
			named += namedByTerm(&required[i])
		}
		for i := range preferred {
			named += namedByTerm(&preferred[i].PodAffinityTerm)
		}
		errs = append(errs, boundSelected(named, maxSelected, path)...)
	}
	if p := a.PodAffinity; p != nil {
		of(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAffinity"))
	}
	if p := a.PodAntiAffinity; p != nil {
		of(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAntiAffinity"))
	}
	return errs
}

// boundSpread does the same with topologySpreadConstraints.
func boundSpread(constraints []corev1.TopologySpreadConstraint, path *field.Path) field.ErrorList {
	if n := len(constraints); n > maxPodTerms {
		return field.ErrorList{field.TooMany(path, n, maxPodTerms)}
	}
	named := 0
	for i := range constraints {
		named += namedBySelector(constraints[i].LabelSelector) + len(constraints[i].MatchLabelKeys)
	}
	return boundSelected(named, maxSelected, path)
}

// BoundSelector refuses a selector of pods that names more labels and values than can be compared with each of them.
func BoundSelector(s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	return boundSelected(namedBySelector(s), maxSelected, path)
}

func boundSelected(named, most int, path *field.Path) field.ErrorList {
	if named <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(path, field.OmitValueType{},
		fmt.Sprintf("must not name more than %d labels, values and namespaces in all, and names %d", most, named))}
}

func namedByTerm(t *corev1.PodAffinityTerm) int {
	return len(t.Namespaces) + len(t.MatchLabelKeys) + len(t.MismatchLabelKeys) + namedBySelector(t.LabelSelector) + namedBySelector(t.NamespaceSelector)
}

func namedBySelector(s *metav1.LabelSelector) (named int) {
	if s == nil {
		return 0
	}
	for i := range s.MatchExpressions {
		named += 1 + len(s.MatchExpressions[i].Values)
	}
	return named + len(s.MatchLabels)
}
