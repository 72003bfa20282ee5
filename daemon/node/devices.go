package node

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/requests"
)

// Devices are the devices of a kind, by which it is told apart which of them a pod could have: some are shared, or others than pods
// use them.
type Devices struct {
	// Shared is the resource of which a pod requests 1 to share a device, and Replicas how many pods may share one; empty and 0 if
	// they are not shared.
	Shared   corev1.ResourceName
	Replicas int64
	All      []Device
}

// Device is one device.
type Device struct {
	// Pods are those that have it: the number of shares, or 0 if it is theirs alone.
	Pods map[types.UID]int64
	// Used says that others than pods use it. Pods that have it keep it, and no other gets it.
	Used bool
}

// SetDevices tells how the devices of those kinds are used. Of other kinds the amount says everything.
func (n *Node) SetDevices(kinds map[corev1.ResourceName]Devices) {
	n.devices = kinds
	n.sharedKinds = nil
	for kind, d := range kinds {
		if d.Shared != "" {
			if n.sharedKinds == nil {
				n.sharedKinds = map[corev1.ResourceName]corev1.ResourceName{}
			}
			n.sharedKinds[d.Shared] = kind
		}
	}
	n.offer()
	n.changed = slices.AppendSeq(n.changed, maps.Keys(n.waiting))
	n.unblock()
}

// WantsDevices reports whether a pod that waits or is on the node requests a device.
func (n *Node) WantsDevices() bool { return n.wanting > 0 }

// wantsDevice reports whether a resource may be one of devices: it has a domain.
func (s *shape) wantsDevice() bool {
	for name := range s.ask {
		if strings.Contains(string(name), "/") {
			return true
		}
	}
	return false
}

// offer works out what pods may request together: what is offered, without the devices that others use and no pod has.
func (n *Node) offer() {
	n.Allocatable = n.offered
	if n.offered == nil {
		return
	}
	for kind, d := range n.devices {
		var used, shares int64
		for _, device := range d.All {
			if !device.Used {
				continue
			}
			has, whole := n.on(&device)
			switch {
			case whole:
			case has > 0:
				shares += d.Replicas - has
			default:
				used++
				shares += d.Replicas
			}
		}
		if used+shares == 0 {
			continue
		}
		if maps.Equal(n.Allocatable, n.offered) {
			n.Allocatable = maps.Clone(n.offered)
		}
		n.Allocatable[kind] = max(0, n.Allocatable[kind]-used)
		if d.Shared != "" {
			n.Allocatable[d.Shared] = max(0, n.Allocatable[d.Shared]-shares)
		}
	}
}

// on returns how many shares of a device pods on the node have, and whether one has the whole device.
func (n *Node) on(d *Device) (shares int64, whole bool) {
	for uid, has := range d.Pods {
		if n.bound[uid] == nil {
			continue // it has ended, and what it had is about to be free
		}
		shares += has
		whole = whole || has == 0
	}
	return shares, whole
}

// free returns how much of a resource there is beside what is taken. Those who share a device leave nobody the whole of it; here they
// are on as few as may be, see placeable.
func (n *Node) free(taken *tally, name corev1.ResourceName) int64 {
	free := n.Allocatable[name] - taken.amounts[name]
	if len(n.sharedKinds) == 0 {
		return free
	}
	if kind := n.sharedKinds[name]; kind != "" {
		return free - n.devices[kind].Replicas*taken.amounts[kind]
	}
	if d := n.devices[name]; d.Replicas > 0 {
		free -= (taken.amounts[d.Shared] + d.Replicas - 1) / d.Replicas
	}
	return free
}

// freeFor returns how much of a resource there is for a pod, which has no shares of what it has as a whole.
func (n *Node) freeFor(taken *tally, s *shape, name corev1.ResourceName) int64 {
	free := n.free(taken, name)
	if kind := n.sharedKinds[name]; kind != "" {
		free -= n.devices[kind].Replicas * s.ask[kind]
	}
	return free
}

// placeable reports whether pods that are to start together find the devices that they request, whatever the others on the node have
// got: of two cards that are shared by a pod each, none is free.
func (n *Node) placeable(pods []*waiter) bool {
	for kind, d := range n.devices {
		if d.Shared == "" {
			continue
		}
		var whole, shared int64
		for _, w := range pods {
			whole += w.shape.ask[kind]
			shared += w.shape.ask[d.Shared]
		}
		if whole+shared == 0 {
			continue
		}
		empty, places := n.places(kind, &d)
		if empty -= whole; empty < 0 || shared > places+empty*d.Replicas {
			return false
		}
	}
	return true
}

// unplaced returns how much of a resource there is for a pod where the devices decide. Of what it has as a whole it has no shares.
func (n *Node) unplaced(s *shape, name corev1.ResourceName) int64 {
	kind := name
	if k := n.sharedKinds[name]; k != "" {
		kind = k
	}
	d := n.devices[kind]
	if d.Shared == "" {
		return requests.Most
	}
	empty, places := n.places(kind, &d)
	if kind == name {
		return empty
	}
	return places + (empty-s.ask[kind])*d.Replicas
}

// scattered says in a scheduler's words of which devices none is free as a whole, or for a share.
func (n *Node) scattered(s *shape) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(s.ask)) {
		if s.ask[name] > n.unplaced(s, name) {
			names = append(names, "Insufficient "+string(name))
		}
	}
	return names
}

// places returns how many devices of a kind nobody has or is about to get, and how many places there are on those that are shared
// already. Those on the node that have not got theirs yet take empty ones as long as there are any.
func (n *Node) places(kind corev1.ResourceName, d *Devices) (empty, places int64) {
	known := map[types.UID]bool{}
	for i := range d.All {
		for uid := range d.All[i].Pods {
			known[uid] = true
		}
		shares, whole := n.on(&d.All[i])
		switch {
		case whole || d.All[i].Used:
		case shares > 0:
			places += d.Replicas - shares
		default:
			empty++
		}
	}
	var shared int64
	for uid, b := range n.bound {
		if !known[uid] {
			empty -= b.shape.ask[kind]
			shared += b.shape.ask[d.Shared]
		}
	}
	opened := min(shared, max(0, empty))
	return empty - opened, places + opened*d.Replicas - shared
}
