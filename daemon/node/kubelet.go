package node

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/critical"
	"github.com/jobd/jobd/daemon/fit"
	"github.com/jobd/jobd/daemon/requests"
)

// Refusal is why the node does not take a pod that is bound to it: what a kubelet writes into the status of the pod,
// which has failed with that.
type Refusal struct{ Reason, Message string }

// Refuses returns why the node does not take a pod whose manifest names it (PodSpec.NodeName), and that nobody has
// looked for room for; nil if it does. Like a kubelet it ignores cordons and taints that only keep new pods away, and
// extended resources that the node does not have.
func (n *Node) Refuses(p *Pod) *Refusal {
	if needs := n.needs(p); len(needs) > 0 {
		name := needs[0].Name
		if name == corev1.ResourcePods {
			return outOf(name, 1, int64(n.used.all.pods), int64(n.MaxPods))
		}
		return outOf(name, p.shape.ask[name], n.used.all.amounts[name], n.Allocatable[name])
	}
	return n.unsuitable(p)
}

// needs returns what a pod that is bound to the node lacks, in a kubelet's order.
func (n *Node) needs(p *Pod) (needs []critical.Need) {
	pods, expected := n.used.all.pods, requests.Resources{}
	for uid, other := range n.expected {
		if uid != p.UID {
			pods++
			expected.Add(other.shape.ask, 1)
		}
	}
	if pods >= n.MaxPods {
		needs = append(needs, critical.Need{Name: corev1.ResourcePods, Amount: int64(pods + 1 - n.MaxPods)})
	}
	if n.Allocatable == nil {
		return needs
	}
	for _, name := range slices.SortedFunc(maps.Keys(p.shape.ask), kubeletOrder) {
		_, known := n.Allocatable[name]
		if !known && rank(name) == len(firstResources) {
			continue // as if it were not asked for
		}
		if lacks := p.shape.ask[name] + expected[name] - n.free(&n.used.all, name); lacks > 0 {
			needs = append(needs, critical.Need{Name: name, Amount: lacks})
		}
	}
	return needs
}

// unsuitable returns why the node does not take such a pod for another reason than want of room.
func (n *Node) unsuitable(p *Pod) *Refusal {
	switch {
	case !n.facts.Selected(&p.shape.terms):
		return failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
	case n.used.all.ports.Busy(p.shape.ports):
		return failed("NodePorts", "node(s) didn't have free ports for the requested pod ports")
	}
	for i := range n.facts.Taints {
		if taint := &n.facts.Taints[i]; taint.Effect == corev1.TaintEffectNoExecute &&
			!fit.Tolerates(p.shape.terms.Tolerations, taint) {
			return failed("TaintToleration", "node(s) had taints that the pod didn't tolerate")
		}
	}
	return nil
}

// SharesTooMuch returns why the node does not take a pod of which a container requests several shares of devices.
func (n *Node) SharesTooMuch(pod *corev1.Pod) *Refusal {
	if why := n.cards.SharesTooMuch(pod); why != "" {
		return &Refusal{"UnexpectedAdmissionError", why}
	}
	return nil
}

func outOf(name corev1.ResourceName, ask, used, capacity int64) *Refusal {
	return &Refusal{
		Reason: "OutOf" + string(name),
		Message: fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
			name, ask, used, capacity),
	}
}

func failed(predicate, why string) *Refusal {
	return &Refusal{Reason: predicate, Message: fmt.Sprintf("Predicate %s failed: %s", predicate, why)}
}

// firstResources are what a kubelet looks at first, in this order.
var firstResources = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
}

func rank(name corev1.ResourceName) int {
	if i := slices.Index(firstResources, name); i >= 0 {
		return i
	}
	return len(firstResources)
}

func kubeletOrder(a, b corev1.ResourceName) int {
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
}
