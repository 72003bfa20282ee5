package node

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

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
		name := needs[0].name
		if name == corev1.ResourcePods {
			return outOf(name, 1, int64(n.used.all.pods), int64(n.MaxPods))
		}
		return outOf(name, p.shape.ask[name], n.used.all.amounts[name], n.Allocatable[name])
	}
	return n.unsuitable(p)
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

// SharesTooMuch returns why the node does not take a pod of which a container requests several shares of devices, as NVIDIA's device
// plugin with failRequestsGreaterThanOne refuses it: two shares are no more of a device than one.
func (n *Node) SharesTooMuch(pod *corev1.Pod) *Refusal {
	if len(n.sharedKinds) == 0 {
		return nil
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for name, quantity := range list[i].Resources.Requests {
				if amount := requests.Amount(name, &quantity); amount > 1 && n.sharedKinds[name] != "" {
					return &Refusal{"UnexpectedAdmissionError", fmt.Sprintf("Allocate failed due to request for '%s: %d' too large: "+
						"maximum request size for shared resources is 1, which is unexpected", name, amount)}
				}
			}
		}
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
