package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/jobd/jobd/daemon/relation"
)

// Obstacle is one thing for which a pod cannot be bound to this machine however much of it is free: that may be the node
// itself, or the company of other pods.
type Obstacle struct {
	Kind ObstacleKind
	// Brief says it in a few words, and Message as part of a sentence about the pod.
	Brief, Message string
	// Labels are those of the node, as key=value, with which it would be none; nil if labels do not help.
	Labels []string
	// Taint is the taint of a Tainted.
	Taint *corev1.Taint
}

// ObstacleKind tells obstacles apart.
type ObstacleKind string

// The kinds of obstacles.
const (
	Cordoned         ObstacleKind = "Cordoned"
	Tainted          ObstacleKind = "Taint"
	WrongSelector    ObstacleKind = "NodeSelector"
	WrongAffinity    ObstacleKind = "NodeAffinity"
	LacksTopology    ObstacleKind = "MissingTopologyLabel" // of a TopologySpreadConstraint, or of affinity between pods
	BadlySpread      ObstacleKind = "TopologySpread"
	LacksCompany     ObstacleKind = "PodAffinity"
	UnwantedCompany  ObstacleKind = "PodAntiAffinity"
	UnwantedByOthers ObstacleKind = "AntiAffinityOfOthers"
	TooManyRules     ObstacleKind = "TooManyRules" // of affinity, anti-affinity and topology spread, of all pods
)

// tooManyRules is the obstacle of a pod that is crowded out.
func (n *Node) tooManyRules() Obstacle {
	return Obstacle{
		Kind: TooManyRules, Brief: "too many rules of affinity and spread",
		Message: fmt.Sprintf("pods on the machine and in the queue ask for %d different rules of affinity, anti-affinity and topology spread, "+
			"and there may be %d", len(n.rules), maxRules),
	}
}

// unfitReasons returns every reason for which the node takes no pod with these terms.
func (n *Node) unfitReasons(t *terms) (all []Obstacle) {
	if n.judge(t) == "" {
		return nil
	}
	cordon := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	if n.facts.cordoned && !tolerates(t.Tolerations, &cordon) {
		all = append(all, Obstacle{Kind: Cordoned, Brief: "the node is cordoned", Message: "the node is cordoned (spec.unschedulable)"})
	}
	for i := range n.facts.taints {
		taint := &n.facts.taints[i]
		if taint.Effect == corev1.TaintEffectPreferNoSchedule || taint.Key == corev1.TaintNodeUnschedulable ||
			tolerates(t.Tolerations, taint) {
			continue
		}
		all = append(all, Obstacle{
			Kind: Tainted, Taint: taint, Brief: fmt.Sprintf("the node's taint %s is not tolerated", taint.ToString()),
			Message: fmt.Sprintf("the node has the taint %s, which the pod does not tolerate", taint.ToString()),
		})
	}
	for _, key := range slices.Sorted(maps.Keys(t.NodeSelector)) {
		want := t.NodeSelector[key]
		is, ok := n.facts.labels[key]
		o := Obstacle{Kind: WrongSelector, Labels: settable(key, want)}
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
	return append(all, n.wrongAffinity(t)...)
}

// settable returns a label as one that somebody may give to the node; nil for one that says what the machine is.
func settable(key, value string) []string {
	switch key {
	case corev1.LabelHostname, corev1.LabelOSStable, corev1.LabelArchStable:
		return nil
	}
	return []string{key + "=" + value}
}

// wrongAffinity says for each term of the required node affinity which of its expressions do not match. One term that
// matches would be enough.
func (n *Node) wrongAffinity(t *terms) []Obstacle {
	if t.Affinity == nil || t.Affinity.NodeAffinity == nil || n.selected(&terms{Affinity: t.Affinity}) {
		return nil
	}
	self := n.object()
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
					label = settable(e.Key, e.Values[0])
				case corev1.NodeSelectorOpExists:
					label = settable(e.Key, "true")
				}
			}
			helps = helps && label != nil
			help = append(help, label...)
		}
		for _, e := range term.MatchExpressions {
			is, has := n.facts.labels[e.Key]
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

// object returns the node as far as selectors look at it.
func (n *Node) object() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.facts.labels[corev1.LabelHostname], Labels: n.facts.labels}}
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

// company returns what keeps a pod apart from those that are taken, in the order in which apart finds it, and the rules by
// which the pods are found that do.
func (n *Node) company(taken *tally, s *shape) (all []Obstacle, matching, holding []int) {
	for _, own := range s.own {
		switch own.Kind {
		case relation.Spread:
			if !n.within(own.Topology) {
				all = append(all, lacksTopology("a topologySpreadConstraint", own.Topology))
			} else if skew := n.skew(taken, s, own); skew > own.MaxSkew {
				all = append(all, Obstacle{
					Kind:  BadlySpread,
					Brief: fmt.Sprintf("its topologySpreadConstraint (maxSkew %d over %s) allows no more pods here", own.MaxSkew, own.Topology[0]),
					Message: fmt.Sprintf("its topologySpreadConstraint over %s (DoNotSchedule, maxSkew %d, minDomains %d) allows "+
						"no more pods that match %s: with it the skew would be %d, and there is only one node",
						own.Topology[0], own.MaxSkew, own.MinDomains, own.Selects(), skew),
				})
				matching = append(matching, own.id)
			}
		case relation.Affinity:
			if first := taken.matches[own.id] == 0 && slices.Contains(s.matches, own.id); !n.within(own.Topology) {
				all = append(all, lacksTopology("its required podAffinity", own.Topology))
			} else if taken.matches[own.id] == 0 && !first {
				all = append(all, Obstacle{
					Kind: LacksCompany, Brief: "no pod that its podAffinity requires is here: " + own.Selects(),
					Message: fmt.Sprintf("its required podAffinity asks for a pod that matches %s, and none is on this machine", own.Selects()),
				})
			}
		case relation.AntiAffinity:
			if n.within(own.Topology) && taken.matches[own.id] > 0 {
				all = append(all, Obstacle{
					Kind: UnwantedCompany, Brief: "its podAntiAffinity keeps it from a pod here: " + own.Selects(),
					Message: fmt.Sprintf("its required podAntiAffinity allows no pod that matches %s on the same machine", own.Selects()),
				})
				matching = append(matching, own.id)
			}
		}
	}
	for _, id := range s.matches {
		if taken.holds[id] > 0 && n.within(n.byID[id].Topology) {
			all = append(all, Obstacle{
				Kind: UnwantedByOthers, Brief: "the podAntiAffinity of a pod here keeps it away",
				Message: fmt.Sprintf(
					"a pod on this machine has a required podAntiAffinity against pods that match %s, as this one does",
					n.byID[id].Selects(),
				),
			})
			holding = append(holding, id)
		}
	}
	return all, matching, holding
}

func lacksTopology(who string, keys []string) Obstacle {
	o := Obstacle{
		Kind: LacksTopology, Brief: "the node lacks the label " + strings.Join(keys, ", "),
		Message: fmt.Sprintf("%s is about places by the label %s, which the node does not have", who, strings.Join(keys, ", ")),
	}
	for _, key := range keys {
		o.Labels = append(o.Labels, settable(key, "VALUE")...)
	}
	return o
}
