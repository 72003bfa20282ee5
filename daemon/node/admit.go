package node

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Step is one decision, to be carried out in one transaction.
type Step struct {
	// Bind are the pods that go onto the node: one, or those of a gang together.
	Bind []types.UID
	// Victims are pods that are to end, since they make way for others, of which For is the first. Nominate are those that
	// room is kept for from now on.
	Nominate, Victims []types.UID
	For               types.UID
}

// Next takes the next decision, the pods of the highest priority first; false when nobody can go on.
func (n *Node) Next() (Step, bool) {
	for len(n.ready) > 0 {
		l := n.ready[0]
		var ready, wanting []*waiter
		if l.gang != nil {
			ready, wanting = n.admitGang(l)
		} else {
			ready, wanting = n.admitFirst(l)
		}
		if len(ready) > 0 {
			return Step{Bind: n.bind(ready)}, true
		}
		if step, ok := n.preempt(wanting); ok {
			return step, true
		}
		n.block()
	}
	return Step{}, false
}

// admitFirst gives the first pod of a line, either as one that there is room for or as one that others could make way for.
func (n *Node) admitFirst(l *line) (ready, wanting []*waiter) {
	first := l.queue[0]
	if n.unfit(first.shape) != "" {
		return nil, nil
	}
	alone := []*waiter{first}
	fits := false
	n.without(alone, func() { fits = n.fits(n.taken(first.Priority), first.shape) })
	if fits {
		return alone, nil
	}
	return nil, alone
}

// admitGang gives the pods of a gang that there is room for, if they are enough, or else those that are needed.
func (n *Node) admitGang(l *line) (ready, wanting []*waiter) {
	g := l.gang
	need := max(1, g.need()-g.bound)
	if !g.gang || len(l.queue) < need {
		return nil, nil
	}
	if n.room(l) < need {
		if lower, _ := n.used.below(l.queue[0].Priority); lower == 0 {
			return nil, nil // and nobody could make way
		}
	}
	fit, able := n.fitting(l)
	switch {
	case len(fit) >= need:
		return fit, nil
	case len(able) >= need:
		return nil, able[:need]
	}
	return nil, nil
}

// room is how many pods of a gang there is room for together. Where they are alike that is not counted one by one.
func (n *Node) room(l *line) int {
	if !n.alike(l) {
		fit, _ := n.fitting(l)
		return len(fit)
	}
	first := l.queue[0]
	if n.unfit(first.shape) != "" {
		return 0
	}
	return min(len(l.queue), n.capacity(n.taken(first.Priority), first.shape))
}

// alike tells whether a gang's pods can be counted by one of them.
func (n *Node) alike(l *line) bool { return len(l.gang.shapes) == 1 && l.gang.kept == 0 }

// fitting gives the pods of a gang that there is room for together, those first that come first, and all that the node
// could take if it were empty.
func (n *Node) fitting(l *line) (fit, able []*waiter) {
	for _, w := range slices.SortedFunc(slices.Values(l.queue), func(a, b *waiter) int {
		if before(a, b) {
			return -1
		}
		return 1
	}) {
		if n.unfit(w.shape) == "" {
			able = append(able, w)
		}
	}
	if len(able) == 0 {
		return nil, nil
	}
	n.without(l.queue, func() {
		taken := tally{}
		taken.merge(n.taken(able[0].Priority))
		for _, w := range able {
			if n.fits(&taken, w.shape) {
				taken.add(w.Pod, 1)
				fit = append(fit, w)
			}
		}
	})
	return fit, able
}

// without asks for something as if no room were kept for those pods.
func (n *Node) without(pods []*waiter, ask func()) {
	for _, w := range pods {
		if w.nominated {
			n.reserved.add(w.Pod, -1)
			defer n.reserved.add(w.Pod, 1)
		}
	}
	ask()
}

func (n *Node) bind(pods []*waiter) (uids []types.UID) {
	for _, w := range pods {
		n.leave(w)
		n.occupy(&bound{Pod: w.Pod})
		uids = append(uids, w.UID)
	}
	return uids
}
