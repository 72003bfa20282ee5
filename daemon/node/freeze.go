package node

import (
	"maps"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/requests"
)

// Pause is how a pod on the node stands to the pauses of its Job.
type Pause struct {
	// Frozen says that its containers are, and For is for how long they were before that, since the pod has started.
	Frozen bool
	For    time.Duration
	// Stands says that a deadline of it stands still, its own or that of its Job, and Later by how much later than its start says one of
	// them comes, because of what was before that.
	Stands bool
	Later  time.Duration
}

// Freeze folds in that the containers of a bound pod are frozen, or go on. A frozen pod gives back the CPU that it requests, and
// keeps all else. When it goes on it has its CPU again at once, even if others have got that meanwhile: then there is less than
// nothing free until enough of them have ended.
func (n *Node) Freeze(uid types.UID, p Pause) {
	b, ok := n.bound[uid]
	if !ok {
		return
	}
	is := b.tenure()
	is.pausedFor, is.later = wholeSeconds(p.For), wholeSeconds(p.Later)
	b.change(is)
	if b.stands != p.Stands {
		b.stands = p.Stands
		n.unblock()
	}
	n.expect(b)
	if b.frozen != p.Frozen {
		n.freeze(b, p.Frozen)
		n.recharge(b, true)
	}
	n.queueForCPU(b)
}

// wholeSeconds returns a duration in seconds, rounded up.
func wholeSeconds(d time.Duration) uint32 {
	return uint32(min(max(0, (d+time.Second-1)/time.Second), math.MaxUint32))
}

func (n *Node) freeze(b *bound, frozen bool) {
	if b.frozen == frozen {
		return
	}
	pausing := b.pausing()
	b.frozen = frozen
	n.countPausing(b, pausing)
	times := 1
	if frozen {
		times = -1
	}
	n.unblock()
	n.used.AddAmounts(b.Priority, b.cpu(), times)
}

// cpu is what a pod gives back while it is frozen.
func (b *bound) cpu() requests.Resources {
	return requests.Resources{corev1.ResourceCPU: b.shape.Ask[corev1.ResourceCPU]}
}

// keeps is the shape of a pod with what it keeps now, or will before long.
func (b *bound) keeps() *shape {
	if !b.frozen && !b.pausing() {
		return b.shape
	}
	return b.withoutCPU()
}

func (b *bound) withoutCPU() *shape {
	s := *b.shape
	s.Ask = maps.Clone(s.Ask)
	delete(s.Ask, corev1.ResourceCPU)
	return &s
}
