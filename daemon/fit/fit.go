// Package fit is whether a pod suits this machine at all, however much of it is free: node selectors and required node affinity,
// cordons, taints and tolerations. Package node decides by it, package causes explains it.
//
// Everything is a pure function of the pod, the Node object and the time.
package fit

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/jobd/jobd/api/core"
)

// Terms are what a pod asks of the node itself.
type Terms struct {
	NodeSelector map[string]string   `json:"nodeSelector,omitempty"`
	Affinity     *corev1.Affinity    `json:"affinity,omitempty"` // required node affinity alone
	Tolerations  []corev1.Toleration `json:"tolerations,omitempty"`
	// Asks says that the pod requests or limits CPU or memory.
	Asks bool `json:"asks,omitempty"`
}

// TermsOf returns the terms of a pod.
func TermsOf(spec *corev1.PodSpec) Terms {
	t := Terms{NodeSelector: spec.NodeSelector, Asks: core.PodQOS(spec) != corev1.PodQOSBestEffort}
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil &&
		a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		t.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
		}}
	}
	if slices.ContainsFunc(spec.Tolerations, matters) {
		t.Tolerations = spec.Tolerations
	}
	return t
}

// matters reports whether a toleration does. Every pod has those of the taints not-ready and unreachable, which this node never has.
func matters(t corev1.Toleration) bool {
	return t.Key != corev1.TaintNodeNotReady && t.Key != corev1.TaintNodeUnreachable
}

// Facts are what the Node object says.
type Facts struct {
	Cordoned bool
	Taints   []corev1.Taint
	Labels   map[string]string
}

// FactsOf returns what a Node object says.
func FactsOf(node *corev1.Node) Facts {
	return Facts{node.Spec.Unschedulable, node.Spec.Taints, node.Labels}
}

// Equal reports whether both say the same.
func (f *Facts) Equal(other *Facts) bool {
	return f.Cordoned == other.Cordoned && maps.Equal(f.Labels, other.Labels) && equality.Semantic.DeepEqual(f.Taints, other.Taints)
}

// node is the node as far as selectors look at it.
func (f *Facts) node() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.Labels[corev1.LabelHostname], Labels: f.Labels}}
}

// Unfit returns why the node takes no pod with these terms, in a scheduler's words; empty if it does.
func (f *Facts) Unfit(t *Terms) string {
	switch {
	case f.Cordoned && !t.tolerates(&cordon):
		return "1 node(s) were unschedulable"
	case f.Repels(t):
		return "1 node(s) had untolerated taint(s)"
	case !f.Selected(t):
		return "1 node(s) didn't match Pod's node affinity/selector"
	}
	return ""
}

var cordon = corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}

// Repels reports whether a taint of the node keeps such pods away.
func (f *Facts) Repels(t *Terms) bool {
	for i := range f.Taints {
		if taint := &f.Taints[i]; taint.Effect != corev1.TaintEffectPreferNoSchedule && !t.tolerates(taint) {
			return true
		}
	}
	return false
}

// Selected reports whether nodeSelector and the required node affinity match the node.
func (f *Facts) Selected(t *Terms) bool {
	if len(t.NodeSelector) == 0 && t.Affinity == nil {
		return true
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: t.NodeSelector, Affinity: t.Affinity}}
	ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(f.node())
	return ok && err == nil
}

// tolerates reports whether a taint does not keep such a pod away. As in a cluster memory pressure keeps away only pods that ask for
// nothing (https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-nodes-by-condition).
func (t *Terms) tolerates(taint *corev1.Taint) bool {
	return t.Asks && taint.Key == corev1.TaintNodeMemoryPressure || Tolerates(t.Tolerations, taint)
}

// Tolerates reports whether one of the tolerations matches a taint.
func Tolerates(tolerations []corev1.Toleration, taint *corev1.Taint) bool {
	return corev1helpers.TolerationsTolerateTaint(klog.Background(), tolerations, taint, false)
}
