// Package relation is what a pod asks of the other pods on its machine: affinity and anti-affinity (PodSpec.Affinity), and how many
// of a kind may be in one place (PodSpec.TopologySpreadConstraints). Package node counts pods by it and decides.
//
// Nothing here knows a node, and everything is a pure function of a pod. What comes of it is never changed, so it may be shared.
package relation

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

// Kind tells relations apart.
type Kind string

// The kinds of relations.
const (
	Affinity     Kind = "affinity" // all terms of a pod at once
	AntiAffinity Kind = "anti"     // one term
	Spread       Kind = "spread"   // one constraint
)

// Relation is one thing that a pod asks of others.
type Relation struct {
	Kind Kind
	// Key is the same for relations that are alike, Rule for those that count the same pods. Both are brief.
	Key, Rule string
	Terms     []Term
	// Topology are the labels that a node has to have for the relation to apply.
	Topology []string
	// Of a TopologySpreadConstraint.
	MaxSkew, MinDomains         int
	HonorsAffinity, HonorsTaint bool
}

// Term selects pods.
type Term struct {
	Namespaces        []string              `json:"namespaces,omitempty"`
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	LabelSelector     *metav1.LabelSelector `json:"labelSelector,omitempty"`
	TopologyKey       string                `json:"topologyKey,omitempty"`

	inNamespace, selects labels.Selector
}

// Of returns what a pod requires of others. Preferences choose among nodes, of which there is one.
func Of(pod *corev1.Pod) (out []*Relation) {
	if a := pod.Spec.Affinity; a != nil {
		if a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			out = append(out, newRelation(Affinity, termsOf(pod, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)))
		}
		if a.PodAntiAffinity != nil {
			for _, t := range termsOf(pod, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) {
				out = append(out, newRelation(AntiAffinity, []Term{t}))
			}
		}
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		if c.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		r := newRelation(Spread, []Term{newTerm(Term{Namespaces: []string{pod.Namespace}, LabelSelector: c.LabelSelector})})
		r.Topology = []string{c.TopologyKey}
		r.MaxSkew, r.MinDomains = int(c.MaxSkew), int(ptr.Deref(c.MinDomains, 1))
		r.HonorsAffinity = ptr.Deref(c.NodeAffinityPolicy, corev1.NodeInclusionPolicyHonor) == corev1.NodeInclusionPolicyHonor
		r.HonorsTaint = ptr.Deref(c.NodeTaintsPolicy, corev1.NodeInclusionPolicyIgnore) == corev1.NodeInclusionPolicyHonor
		key, _ := json.Marshal([]any{r.Topology, r.MaxSkew, r.MinDomains, r.HonorsAffinity, r.HonorsTaint})
		r.Key = Brief(r.Key + string(key))
		out = append(out, r)
	}
	return out
}

func termsOf(pod *corev1.Pod, required []corev1.PodAffinityTerm) (out []Term) {
	for i := range required {
		t := &required[i]
		own := Term{
			Namespaces: slices.Clone(t.Namespaces), NamespaceSelector: t.NamespaceSelector, LabelSelector: t.LabelSelector,
			TopologyKey: t.TopologyKey,
		}
		if len(t.Namespaces) == 0 && t.NamespaceSelector == nil {
			own.Namespaces = []string{pod.Namespace}
		}
		out = append(out, newTerm(own))
	}
	return out
}

// newTerm parses the selectors of a term, which have been validated. A selector that is missing selects nothing.
func newTerm(t Term) Term {
	parse := func(s *metav1.LabelSelector) labels.Selector {
		selector, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			return labels.Nothing()
		}
		return selector
	}
	t.inNamespace, t.selects = parse(t.NamespaceSelector), parse(t.LabelSelector)
	return t
}

func newRelation(kind Kind, terms []Term) *Relation {
	content, _ := json.Marshal(terms) // of types that were decoded from JSON
	r := &Relation{Kind: kind, Terms: terms, Rule: Brief(string(kind) + string(content))}
	r.Key = r.Rule
	for _, t := range terms {
		if t.TopologyKey != "" {
			r.Topology = append(r.Topology, t.TopologyKey)
		}
	}
	return r
}

// Counts reports whether all terms select the pods that have some labels in a namespace with labels of its own.
func (r *Relation) Counts(own labels.Set, namespace string, of labels.Set) bool {
	if r.Kind == Spread && r.CountsAll() {
		return false // a scheduler counts nobody then
	}
	for i := range r.Terms {
		t := &r.Terms[i]
		if !slices.Contains(t.Namespaces, namespace) && !t.inNamespace.Matches(of) || !t.selects.Matches(own) {
			return false
		}
	}
	return true
}

// CountsAll reports whether the selector of a constraint is empty.
func (r *Relation) CountsAll() bool { return r.Terms[0].selects.Empty() }

// Steps returns how many labels and values Counts compares at most.
func (r *Relation) Steps() (steps int) {
	of := func(s *metav1.LabelSelector) {
		if s != nil {
			for i := range s.MatchExpressions {
				steps += 1 + len(s.MatchExpressions[i].Values)
			}
			steps += len(s.MatchLabels)
		}
	}
	for i := range r.Terms {
		t := &r.Terms[i]
		steps += 1 + len(t.Namespaces)
		of(t.NamespaceSelector)
		of(t.LabelSelector)
	}
	return steps
}

// ByNamespace reports whether Counts depends on the labels of namespaces.
func (r *Relation) ByNamespace() bool {
	return slices.ContainsFunc(r.Terms, func(t Term) bool { return t.NamespaceSelector != nil })
}

// ByIndex reports whether Counts depends on the label that differs among the pods of a Job.
func (r *Relation) ByIndex() bool {
	return slices.ContainsFunc(r.Terms, func(t Term) bool {
		if t.LabelSelector == nil {
			return false
		}
		_, one := t.LabelSelector.MatchLabels[batchv1.JobCompletionIndexAnnotation]
		return one || slices.ContainsFunc(t.LabelSelector.MatchExpressions, func(e metav1.LabelSelectorRequirement) bool {
			return e.Key == batchv1.JobCompletionIndexAnnotation
		})
	})
}

// Selects says which pods the terms select.
func (r *Relation) Selects() string {
	var out []string
	for _, t := range r.Terms {
		which := metav1.FormatLabelSelector(t.LabelSelector)
		switch {
		case len(t.Namespaces) > 0:
			which += " in " + strings.Join(t.Namespaces, ", ")
		case t.NamespaceSelector != nil:
			which += " in namespaces with " + metav1.FormatLabelSelector(t.NamespaceSelector)
		}
		out = append(out, which)
	}
	return strings.Join(out, "; ")
}

// Brief returns a key that takes little memory, however much it stands for.
func Brief(key string) string {
	if len(key) <= 2*sha256.Size {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return string(sum[:])
}
