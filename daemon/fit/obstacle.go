package fit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Obstacle is one thing for which a pod cannot be bound to this machine however much of it is free: that may be the node
// itself, or the company of other pods.
type Obstacle struct {
	Kind Kind
	// Brief says it in a few words, and Message as part of a sentence about the pod.
	Brief, Message string
	// Labels are those of the node, as key=value, with which it would be none; nil if labels do not help.
	Labels []string
	// Taint is the taint of a Tainted.
	Taint *corev1.Taint
}

// Kind tells obstacles apart.
type Kind string

// The kinds of obstacles.
const (
	Cordoned         Kind = "Cordoned"
	Tainted          Kind = "Taint"
	WrongSelector    Kind = "NodeSelector"
	WrongAffinity    Kind = "NodeAffinity"
	LacksTopology    Kind = "MissingTopologyLabel" // of a TopologySpreadConstraint, or of affinity between pods
	BadlySpread      Kind = "TopologySpread"
	LacksCompany     Kind = "PodAffinity"
	UnwantedCompany  Kind = "PodAntiAffinity"
	UnwantedByOthers Kind = "AntiAffinityOfOthers"
	TooManyRules     Kind = "TooManyRules" // of affinity, anti-affinity and topology spread, of all pods
)

// Obstacles returns every reason for which the node takes no pod with these terms.
func (f *Facts) Obstacles(t *Terms) (all []Obstacle) {
	if f.Unfit(t) == "" {
		return nil
	}
	if f.Cordoned && !t.tolerates(&cordon) {
		all = append(all, Obstacle{Kind: Cordoned, Brief: "the node is cordoned", Message: "the node is cordoned (spec.unschedulable)"})
	}
	for i := range f.Taints {
		taint := &f.Taints[i]
		if taint.Effect == corev1.TaintEffectPreferNoSchedule || taint.Key == corev1.TaintNodeUnschedulable ||
			t.tolerates(taint) {
			continue
		}
		all = append(all, Obstacle{
			Kind: Tainted, Taint: taint, Brief: fmt.Sprintf("the node's taint %s is not tolerated", taint.ToString()),
			Message: fmt.Sprintf("the node has the taint %s, which the pod does not tolerate", taint.ToString()),
		})
	}
	for _, key := range slices.Sorted(maps.Keys(t.NodeSelector)) {
		want := t.NodeSelector[key]
		is, ok := f.Labels[key]
		o := Obstacle{Kind: WrongSelector, Labels: Settable(key, want)}
		switch {
		case !ok:
			o.Brief = fmt.Sprintf("the node lacks the label %s=%s", key, want)
			o.Message = fmt.Sprintf("nodeSelector asks for the label %s=%s, which the node does not have", key, want)
		case is != want:
			o.Brief = fmt.Sprintf("the node's label %s is %q, not %q", key, is, want)
			o.Message = fmt.Sprintf("nodeSelector asks for %s=%s, and the node's label is %q", key, want, is)
		default:
			continue
		}
		all = append(all, o)
	}
	return append(all, f.wrongAffinity(t)...)
}

// Settable returns a label as one that somebody may give to the node; nil for one that says what the machine is.
func Settable(key, value string) []string {
	switch key {
	case corev1.LabelHostname, corev1.LabelOSStable, corev1.LabelArchStable:
		return nil
	}
	return []string{key + "=" + value}
}

// wrongAffinity says for each term of the required node affinity which of its expressions do not match. One term that
// matches would be enough.
func (f *Facts) wrongAffinity(t *Terms) []Obstacle {
	if t.Affinity == nil || t.Affinity.NodeAffinity == nil || f.Selected(&Terms{Affinity: t.Affinity}) {
		return nil
	}
	self := f.node()
	o := Obstacle{Kind: WrongAffinity}
	var messages []string
	for i, term := range t.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		var wrong, help []string
		helps := true
		note := func(e corev1.NodeSelectorRequirement, alone corev1.NodeSelectorTerm, is string, has bool, field bool) {
			s, err := nodeaffinity.NewNodeSelector(&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{alone}})
			if err == nil && s.Match(self) {
				return
			}
			wrong = append(wrong, expression(e)+", "+hasOf(e.Key, is, has))
			var label []string
			if !field {
				switch e.Operator {
				case corev1.NodeSelectorOpIn:
					label = Settable(e.Key, e.Values[0])
				case corev1.NodeSelectorOpExists:
					label = Settable(e.Key, "true")
				}
			}
			helps = helps && label != nil
			help = append(help, label...)
		}
		for _, e := range term.MatchExpressions {
			is, has := f.Labels[e.Key]
			note(e, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{e}}, is, has, false)
		}
		for _, e := range term.MatchFields {
			note(e, corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{e}}, self.Name, true, true)
		}
		if len(wrong) == 0 {
			wrong = []string{"it is empty, and matches no node"}
		} else if o.Brief == "" {
			o.Brief = "node affinity: " + wrong[0]
		}
		if helps && o.Labels == nil {
			o.Labels = help
		}
		messages = append(messages, fmt.Sprintf("nodeSelectorTerms[%d]: %s", i, strings.Join(wrong, " and ")))
	}
	if o.Brief == "" {
		o.Brief = "the required node affinity matches no node"
	}
	o.Message = "the required nodeAffinity does not match the node: " + strings.Join(messages, "; ")
	return []Obstacle{o}
}

// Selects says which nodes a selector asks for.
func Selects(s *corev1.NodeSelector) string {
	var terms []string
	for _, term := range s.NodeSelectorTerms {
		var all []string
		for _, e := range append(slices.Clone(term.MatchExpressions), term.MatchFields...) {
			all = append(all, strings.TrimPrefix(expression(e), asks))
		}
		terms = append(terms, strings.Join(all, " and "))
	}
	return strings.Join(terms, ", or ")
}

// asks begins what is said of an expression.
const asks = "it asks for "

func expression(e corev1.NodeSelectorRequirement) string {
	switch e.Operator {
	case corev1.NodeSelectorOpExists:
		return asks + e.Key
	case corev1.NodeSelectorOpDoesNotExist:
		return asks + "no " + e.Key
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		return fmt.Sprintf(asks+"%s %s %s", e.Key, map[bool]string{true: ">", false: "<"}[e.Operator == corev1.NodeSelectorOpGt],
			strings.Join(e.Values, ", "))
	case corev1.NodeSelectorOpNotIn:
		return fmt.Sprintf(asks+"%s not in (%s)", e.Key, strings.Join(e.Values, ", "))
	}
	return fmt.Sprintf(asks+"%s in (%s)", e.Key, strings.Join(e.Values, ", "))
}

func hasOf(key, is string, has bool) string {
	if !has {
		return "which the node does not have"
	}
	return fmt.Sprintf("and the node has %s=%s", key, is)
}
