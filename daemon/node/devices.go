package node

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/cards"
	"github.com/jobd/jobd/daemon/load"
	"github.com/jobd/jobd/daemon/requests"
)

// SetDevices tells how the devices of those kinds are used. Of other kinds the amount says everything.
func (n *Node) SetDevices(kinds map[corev1.ResourceName]cards.Devices) {
	n.cards.Set(kinds)
	n.Allocatable = n.cards.Offer(n.offered)
	n.changed = slices.AppendSeq(n.changed, maps.Keys(n.waiting))
	n.unblock()
}

// WantsDevices reports whether a pod that waits or is on the node requests a device.
func (n *Node) WantsDevices() bool { return n.wanting > 0 }

// free returns how much of a resource there is beside what is taken.
func (n *Node) free(taken *load.Sum, name corev1.ResourceName) int64 {
	return n.cards.Free(n.Allocatable, taken.Amounts, name)
}

// freeFor returns how much of a resource there is for a pod, which has no shares of what it has as a whole.
func (n *Node) freeFor(taken *load.Sum, s *shape, name corev1.ResourceName) int64 {
	return n.free(taken, name) - n.cards.Own(s.Ask, name)
}

// placeable reports whether pods that are to start together find the devices that they request.
func (n *Node) placeable(pods []*waiter) bool {
	return n.cards.Placeable(func(yield func(requests.Resources) bool) {
		for _, w := range pods {
			if !yield(w.shape.Ask) {
				return
			}
		}
	})
}
