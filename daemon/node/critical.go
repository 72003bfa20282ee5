package node

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/kubelet"
	"github.com/jobd/jobd/daemon/requests"
)

// Critical reports whether the node evicts other pods for a pod that is bound to it, where there is no room.
func (p *Pod) Critical() bool { return p.Priority >= kubelet.Priority }

// MakeRoom chooses which pods the node evicts to take a critical pod whose manifest names it (PodSpec.NodeName), as a
// kubelet does. The room is kept until the pod is bound or gone. If there are no victims, and no refusal, what ends
// already is enough. A refusal is why room does not help, or cannot be made; then nothing is to be evicted.
func (n *Node) MakeRoom(p *Pod) (victims []types.UID, refusal *kubelet.Refusal) {
	if refusal = n.unsuitable(p); refusal != nil {
		return nil, refusal
	}
	needs := n.needs(p)
	var may []kubelet.Victim
	for _, b := range n.bound {
		if b.pausing() {
			needs = kubelet.Less(needs, b.cpu())
		}
		switch {
		case b.ending:
			ends := requests.Resources{}
			ends.Add(b.keeps().Ask, 1)
			ends[corev1.ResourcePods] = 1
			needs = kubelet.Less(needs, ends)
		case !b.Critical() || b.Priority < p.Priority:
			may = append(may, kubelet.Victim{UID: b.UID, Class: b.class, Has: b.keeps().Ask})
		}
	}
	chosen, left := kubelet.Choose(may, needs)
	if len(left) > 0 {
		return nil, &kubelet.Refusal{
			Reason: "UnexpectedAdmissionError",
			Message: "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of " +
				"pods to preempt: no set of running pods found to reclaim resources: " + kubelet.List(left),
		}
	}
	for _, v := range chosen {
		b := n.bound[v.UID]
		n.end(b, true)
		n.queueForCPU(b)
		victims = append(victims, b.UID)
	}
	if n.expected == nil {
		n.expected = map[types.UID]*Pod{}
	}
	if n.expected[p.UID] == nil {
		n.expected[p.UID] = p
		n.take(p)
		n.reserved.Add(p.Priority, p.shape.One, 1)
	}
	return victims, nil
}

// forgetExpected frees the room that is kept for a critical pod.
func (n *Node) forgetExpected(uid types.UID) {
	if p, ok := n.expected[uid]; ok {
		delete(n.expected, uid)
		n.reserved.Add(p.Priority, p.shape.One, -1)
		n.drop(p)
		n.unblock()
	}
}

func (b *bound) has(name corev1.ResourceName) int64 {
	if name == corev1.ResourcePods {
		return 1
	}
	return b.keeps().Ask[name]
}
