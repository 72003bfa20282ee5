package node

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/kubelet"
	"github.com/jobd/jobd/daemon/requests"
)

// Allocate gives a pod on the node other requests, those of now, and returns an empty reason; or it returns why it cannot, as
// the reason and message of the condition PodResizePending. With keep, a pod that waits for room keeps pods of the same
// priority, or a lower one, from taking it, until Yield is called; without, it is only asked before those.
func (n *Node) Allocate(uid types.UID, now *Pod, keep bool) (reason, message string) {
	b, ok := n.bound[uid]
	if !ok {
		return "", ""
	}
	if now.shape.key == b.shape.base {
		n.forgetWish(uid)
		return "", ""
	}
	extra := requests.Resources{}
	for _, name := range slices.SortedFunc(maps.Keys(now.shape.Ask), kubelet.Order) {
		ask, has := now.shape.Ask[name], b.shape.Ask[name]
		if ask <= has || n.Allocatable == nil {
			continue
		}
		extra[name] = ask - has
		capacity := n.Allocatable[name]
		used := n.used.All.Amounts[name] - has
		switch {
		case message != "" && reason == corev1.PodReasonInfeasible:
		case ask > capacity:
			reason = corev1.PodReasonInfeasible
			message = fmt.Sprintf("Node didn't have enough capacity: %s, requested: %d, capacity: %d", name, ask, capacity)
		case message == "" && ask > capacity-used:
			reason, message = corev1.PodReasonDeferred, kubelet.OutOf(name, ask, used, capacity).Message
		}
	}
	switch reason {
	case corev1.PodReasonInfeasible:
		n.forgetWish(uid)
		return reason, message
	case corev1.PodReasonDeferred:
		if !keep {
			n.forgetWish(uid)
			return reason, message
		}
		if n.wishes == nil {
			n.wishes = map[types.UID]wish{}
		}
		n.wishes[uid] = wish{b.labels.Namespace(), b.Priority, extra}
		return reason, message
	}
	delete(n.wishes, uid)
	ending, frozen, displaced := b.ending, b.frozen, b.displaced()
	n.end(b, false)
	n.displace(b, 0)
	n.freeze(b, false)
	n.used.Add(b.Priority, b.shape.One, -1)
	n.drop(b.Pod)
	delete(n.bound, uid) // what it asks of others may be known anew, and others are then looked at
	n.take(now)
	b.Pod, n.bound[uid] = now, b
	n.cards.Bound(uid, now.shape.Ask)
	n.used.Add(b.Priority, b.shape.One, 1)
	n.freeze(b, frozen)
	n.displace(b, displaced)
	n.end(b, ending)
	n.queueForCPU(b)
	n.recharge(b, false)
	n.unblock()
	return "", ""
}

// Yield frees the room that is kept for pods of a namespace that are to become larger. They go on waiting.
func (n *Node) Yield(namespace string) {
	for uid, w := range n.wishes {
		if w.namespace == namespace {
			n.forgetWish(uid)
		}
	}
}

func (n *Node) forgetWish(uid types.UID) {
	if _, ok := n.wishes[uid]; ok {
		delete(n.wishes, uid)
		n.unblock()
	}
}

// Freed reports whether since the last call there may have become more room.
func (n *Node) Freed() bool {
	freed := n.freed
	n.freed = false
	return freed
}
