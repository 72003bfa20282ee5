package node

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/fit"
	"github.com/jobd/jobd/daemon/kubelet"
	"github.com/jobd/jobd/daemon/requests"
)

// Refuses returns why the node does not take a pod whose manifest names it (PodSpec.NodeName), and that nobody has
// looked for room for; nil if it does. Like a kubelet it ignores cordons and taints that only keep new pods away, and
// extended resources that the node does not have.
func (n *Node) Refuses(p *Pod) *kubelet.Refusal {
	if needs := n.needs(p); len(needs) > 0 {
		name := needs[0].Name
		if name == corev1.ResourcePods {
			return kubelet.OutOf(name, 1, int64(n.used.All.Pods), int64(n.MaxPods))
		}
		return kubelet.OutOf(name, p.shape.Ask[name], n.used.All.Amounts[name], n.Allocatable[name])
	}
	return n.unsuitable(p)
}

// needs returns what a pod that is bound to the node lacks, in a kubelet's order.
func (n *Node) needs(p *Pod) (needs []kubelet.Need) {
	pods, expected := n.used.All.Pods, requests.Resources{}
	for uid, other := range n.expected {
		if uid != p.UID {
			pods++
			expected.Add(other.shape.Ask, 1)
		}
	}
	if pods >= n.MaxPods {
		needs = append(needs, kubelet.Need{Name: corev1.ResourcePods, Amount: int64(pods + 1 - n.MaxPods)})
	}
	if n.Allocatable == nil {
		return needs
	}
	for _, name := range slices.SortedFunc(maps.Keys(p.shape.Ask), kubelet.Order) {
		_, known := n.Allocatable[name]
		if !known && kubelet.Extended(name) {
			continue // as if it were not asked for
		}
		if lacks := p.shape.Ask[name] + expected[name] - n.free(&n.used.All, name); lacks > 0 {
			needs = append(needs, kubelet.Need{Name: name, Amount: lacks})
		}
	}
	return needs
}

// unsuitable returns why the node does not take such a pod for another reason than want of room.
func (n *Node) unsuitable(p *Pod) *kubelet.Refusal {
	switch {
	case !n.facts.Selected(&p.shape.terms):
		return kubelet.Failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
	case n.used.All.Ports.Busy(p.shape.Ports):
		return kubelet.Failed("NodePorts", "node(s) didn't have free ports for the requested pod ports")
	}
	for i := range n.facts.Taints {
		if taint := &n.facts.Taints[i]; taint.Effect == corev1.TaintEffectNoExecute &&
			!fit.Tolerates(p.shape.terms.Tolerations, taint) {
			return kubelet.Failed("TaintToleration", "node(s) had taints that the pod didn't tolerate")
		}
	}
	return nil
}

// SharesTooMuch returns why the node does not take a pod of which a container requests several shares of devices.
func (n *Node) SharesTooMuch(pod *corev1.Pod) *kubelet.Refusal {
	if why := n.cards.SharesTooMuch(pod); why != "" {
		return &kubelet.Refusal{Reason: "UnexpectedAdmissionError", Message: why}
	}
	return nil
}
