// Package cards tells apart the devices of a kind where their number does not say everything, since some are shared, or others than pods
// use them: what pods may request of them, and whether pods find what they request.
//
// In come the devices, and the pods on the machine with what they request. Nothing here does I/O. Package node asks before it binds a pod.
package cards

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/podspec"
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

// Wanted reports whether what is asked for may be devices: it has a domain.
func Wanted(ask requests.Resources) bool {
	for name := range ask {
		if strings.Contains(string(name), "/") {
			return true
		}
	}
	return false
}

// Board is the devices of a machine with the pods on it. The zero value has none of either.
type Board struct {
	kinds map[corev1.ResourceName]Devices
	// shared are the kinds by what shares of them are called.
	shared map[corev1.ResourceName]corev1.ResourceName
	pods   map[types.UID]requests.Resources // those that want devices
}

// Set tells how the devices of those kinds are used. Of other kinds the amount says everything.
func (b *Board) Set(kinds map[corev1.ResourceName]Devices) {
	b.kinds, b.shared = kinds, nil
	for kind, d := range kinds {
		if d.Shared != "" {
			if b.shared == nil {
				b.shared = map[corev1.ResourceName]corev1.ResourceName{}
			}
			b.shared[d.Shared] = kind
		}
	}
}

// Bound takes in what a pod on the machine requests, and reports whether Offer may return something else than before.
func (b *Board) Bound(pod types.UID, ask requests.Resources) bool {
	if !Wanted(ask) {
		return false
	}
	if b.pods == nil {
		b.pods = map[types.UID]requests.Resources{}
	}
	b.pods[pod] = ask
	return len(b.kinds) > 0
}

// Gone takes in that a pod is not on the machine any more, and reports whether Offer may return something else than before.
func (b *Board) Gone(pod types.UID) bool {
	_, wanted := b.pods[pod]
	delete(b.pods, pod)
	return wanted && len(b.kinds) > 0
}

// Offer returns what pods may request together: what is offered, without the devices that others use and no pod has.
func (b *Board) Offer(offered requests.Resources) requests.Resources {
	if offered == nil {
		return nil
	}
	out := offered
	for kind, d := range b.kinds {
		var used, shares int64
		for i := range d.All {
			if !d.All[i].Used {
				continue
			}
			has, whole := b.On(&d.All[i])
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
		if maps.Equal(out, offered) {
			out = maps.Clone(offered)
		}
		out[kind] = max(0, out[kind]-used)
		if d.Shared != "" {
			out[d.Shared] = max(0, out[d.Shared]-shares)
		}
	}
	return out
}

// On returns how many shares of a device pods on the machine have, and whether one has the whole device.
func (b *Board) On(d *Device) (shares int64, whole bool) {
	for uid, has := range d.Pods {
		if _, ok := b.pods[uid]; !ok {
			continue // it has ended, and what it had is about to be free
		}
		shares += has
		whole = whole || has == 0
	}
	return shares, whole
}

// Free returns how much of a resource there is beside what is taken, of what is allocatable. Those who share a device leave nobody the
// whole of it; here they are on as few as may be, see Placeable.
func (b *Board) Free(allocatable, taken requests.Resources, name corev1.ResourceName) int64 {
	free := allocatable[name] - taken[name]
	if len(b.shared) == 0 {
		return free
	}
	if kind := b.shared[name]; kind != "" {
		return free - b.kinds[kind].Replicas*taken[kind]
	}
	if d := b.kinds[name]; d.Replicas > 0 {
		free -= (taken[d.Shared] + d.Replicas - 1) / d.Replicas
	}
	return free
}

// Own returns how much less of a resource there is for a pod because of what else it asks for: it has no shares of what it has as a whole.
func (b *Board) Own(ask requests.Resources, name corev1.ResourceName) int64 {
	if kind := b.shared[name]; kind != "" {
		return b.kinds[kind].Replicas * ask[kind]
	}
	return 0
}

// Placeable reports whether pods that are to start together find the devices that they request, whatever the others on the machine have
// got: of two cards that are shared by a pod each, none is free.
func (b *Board) Placeable(asks iter.Seq[requests.Resources]) bool {
	for kind, d := range b.kinds {
		if d.Shared == "" {
			continue
		}
		var whole, shared int64
		for ask := range asks {
			whole += ask[kind]
			shared += ask[d.Shared]
		}
		if whole+shared == 0 {
			continue
		}
		empty, places := b.places(kind, &d)
		if empty -= whole; empty < 0 || shared > places+empty*d.Replicas {
			return false
		}
	}
	return true
}

// Unplaced returns how much of a resource there is for a pod where the devices decide. Of what it has as a whole it has no shares.
func (b *Board) Unplaced(ask requests.Resources, name corev1.ResourceName) int64 {
	kind := name
	if k := b.shared[name]; k != "" {
		kind = k
	}
	d := b.kinds[kind]
	if d.Shared == "" {
		return requests.Most
	}
	empty, places := b.places(kind, &d)
	if kind == name {
		return empty
	}
	return places + (empty-ask[kind])*d.Replicas
}

// Scattered says in a scheduler's words of which devices none is free as a whole, or for a share.
func (b *Board) Scattered(ask requests.Resources) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(ask)) {
		if ask[name] > b.Unplaced(ask, name) {
			names = append(names, "Insufficient "+string(name))
		}
	}
	return names
}

// places returns how many devices of a kind nobody has or is about to get, and how many places there are on those that are shared
// already. Those on the machine that have not got theirs yet take empty ones as long as there are any.
func (b *Board) places(kind corev1.ResourceName, d *Devices) (empty, places int64) {
	known := map[types.UID]bool{}
	for i := range d.All {
		for uid := range d.All[i].Pods {
			known[uid] = true
		}
		shares, whole := b.On(&d.All[i])
		switch {
		case whole || d.All[i].Used:
		case shares > 0:
			places += d.Replicas - shares
		default:
			empty++
		}
	}
	var shared int64
	for uid, ask := range b.pods {
		if !known[uid] {
			empty -= ask[kind]
			shared += ask[d.Shared]
		}
	}
	opened := min(shared, max(0, empty))
	return empty - opened, places + opened*d.Replicas - shared
}

// SharesTooMuch returns why a pod is not taken of which a container requests several shares of devices, as NVIDIA's device
// plugin with failRequestsGreaterThanOne refuses it: two shares are no more of a device than one. It is empty if none does.
func (b *Board) SharesTooMuch(pod *corev1.Pod) string {
	if len(b.shared) == 0 {
		return ""
	}
	for c := range podspec.Workload(&pod.Spec) {
		for name, quantity := range c.Resources.Requests {
			if amount := requests.Amount(name, &quantity); amount > 1 && b.shared[name] != "" {
				return fmt.Sprintf("Allocate failed due to request for '%s: %d' too large: "+
					"maximum request size for shared resources is 1, which is unexpected", name, amount)
			}
		}
	}
	return ""
}
