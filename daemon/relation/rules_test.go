package relation

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// away returns what a pod asks that keeps away from those of an app, in its namespace or in those with a label.
func away(app, namespaces string) []*Relation {
	p := &corev1.Pod{}
	p.Namespace = "ns"
	term := corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, TopologyKey: "host"}
	if namespaces != "" {
		term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": namespaces}}
	}
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
	return Of(p)
}

func TestRulesAreSharedAndForgotten(t *testing.T) {
	r := NewRules()
	first := r.Register(away("a", ""), "ns")
	if len(first) != 1 || len(r.Register(away("a", ""), "ns")) != 0 || len(r.Register(away("b", ""), "ns")) != 1 {
		t.Fatalf("%d rules", r.Len())
	}
	if got := r.After(first[0].ID); len(got) != 1 || got[0].ID != r.Last() || len(r.After(0)) != 2 {
		t.Errorf("%v came after the first", got)
	}
	if r.Unregister(away("a", "")) || !r.Unregister(away("a", "")) || r.Get(first[0].ID) != nil || r.Len() != 1 {
		t.Errorf("%d rules are left", r.Len())
	}
	if r.Unregister(away("b", "")); r.Len()+len(r.byKey)+len(r.byID)+len(r.count) > 0 {
		t.Errorf("%+v", r)
	}
}

func TestRulesMatchByTheLabelsOfNamespaces(t *testing.T) {
	r := NewRules()
	r.Register(away("a", "x"), "ns")
	matching := func() []int {
		ids, _ := r.Matcher(r.After(0))(LabelsOf("other", map[string]string{"app": "a"}))
		return ids
	}
	if got := matching(); len(got) > 0 {
		t.Errorf("%v match in a namespace without labels", got)
	}
	if !r.SetNamespace("other", map[string]string{"team": "x"}) || r.SetNamespace("other", map[string]string{"team": "x"}) {
		t.Error("a change is not told from none")
	}
	if got := matching(); !slices.Equal(got, []int{1}) {
		t.Errorf("%v match", got)
	}
	if r.SetNamespace("other", nil); len(matching()) > 0 {
		t.Error("a namespace that is gone has its labels")
	}
}
