package node

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Freeze folds in that the containers of a bound pod are frozen, or go on. A frozen pod gives back the CPU that it requests, and
// keeps all else. When it goes on it has its CPU again at once, even if others have got that meanwhile: then there is less than
// nothing free until enough of them have ended.
func (n *Node) Freeze(uid types.UID, frozen bool) {
	if b, ok := n.bound[uid]; ok {
		n.freeze(b, frozen)
		n.queueForCPU(b)
	}
}

func (n *Node) freeze(b *bound, frozen bool) {
	if b.frozen == frozen {
		return
	}
	pausing := b.pausing()
	b.frozen, b.paused = frozen, true
	n.countPausing(b, pausing)
	n.expect(b)
	times := int64(1)
	if frozen {
		times = -1
	}
	n.unblock()
	n.used.all.amounts.add(b.cpu(), times)
	n.used.by[b.Priority].amounts.add(b.cpu(), times)
}

// cpu is what a pod gives back while it is frozen.
func (b *bound) cpu() Resources {
	return Resources{corev1.ResourceCPU: b.shape.ask[corev1.ResourceCPU]}
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
	s.ask = maps.Clone(s.ask)
	delete(s.ask, corev1.ResourceCPU)
	return &s
}

// addBound counts what a bound pod takes now, or will before long.
func (t *tally) addBound(b *bound, times int) {
	t.add(b.Pod, times)
	if b.frozen || b.pausing() {
		t.amounts.add(b.cpu(), -int64(times))
	}
}
