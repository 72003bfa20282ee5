package node

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/load"
)

// stepsAtOnce is how much Next compares before it lets others go on.
const stepsAtOnce = 100_000

// Next returns the next decision, pods of the highest priority first; false if there is none. A decision that is empty only
// says that there is more to look at. considers, if there is one, is told the first pod of what is looked at next, before that may
// take long.
func (n *Node) Next(considers func(uid types.UID)) (Step, bool) {
	if n.fewer {
		n.retryCrowded()
	}
	for begin := n.steps; len(n.ready) > 0; {
		if n.steps-begin > stepsAtOnce {
			return Step{}, true
		}
		n.steps++
		l := n.ready[0].lines[0]
		if considers != nil {
			considers(l.queue[0].UID)
		}
		if n.compareFirst(l, begin+stepsAtOnce) {
			continue // the line may be another one now, or not be there
		}
		var ready, wanting []*waiter
		if l.gang != nil {
			ready, wanting = n.admitGang(l)
		} else {
			ready, wanting = n.admitFirst(l)
		}
		if len(ready) > 0 && ready[0].shape.Continues {
			return Step{Continue: n.continued(ready)}, true
		}
		if len(ready) > 0 {
			return Step{Bind: n.bind(ready)}, true
		}
		if step, ok := n.preempt(wanting); ok {
			return step, true
		}
		n.block()
		n.reserve(l)
	}
	return Step{}, false
}

// admitFirst returns the first pod of a line, either as one that fits or as one that others may be preempted for. What it returns is
// valid until the next call: very many lines are looked at in a pass.
func (n *Node) admitFirst(l *line) (ready, wanting []*waiter) {
	first := l.queue[0]
	if n.unfit(first.shape) != "" {
		return nil, nil
	}
	n.alone[0] = first
	alone := n.alone[:]
	fits := false
	n.without(alone, func() { fits = n.fits(n.taken(first), first.shape) })
	switch {
	case !fits:
		return nil, alone
	case !n.placeable(alone):
		return nil, nil // until those who share the devices leave some
	}
	return alone, nil
}

// admitGang returns the pods of a gang that fit, if they are enough, or else those that others may be preempted for.
func (n *Node) admitGang(l *line) (ready, wanting []*waiter) {
	g := l.gang
	need := max(1, g.need()-g.bound)
	if !g.gang || len(l.queue) < need {
		return nil, nil
	}
	if n.countFitting(l) < need {
		if lower, _ := n.used.Below(l.queue[0].Priority); lower == 0 {
			return nil, nil // and there is no pod to preempt
		}
	}
	fit, able := n.fitting(l)
	switch {
	case len(fit) >= need && n.placeable(fit):
		return fit, nil
	case len(fit) >= need:
		if n.placeable(fit[:need]) {
			return fit[:need], nil
		}
		return nil, nil
	case len(able) >= need:
		return nil, able[:need]
	}
	return nil, nil
}

// countFitting returns how many pods of a gang fit together. If they are alike this is computed instead of counted one by one.
func (n *Node) countFitting(l *line) int {
	if !n.alike(l) {
		fit, _ := n.fitting(l)
		return len(fit)
	}
	first := l.queue[0]
	if n.unfit(first.shape) != "" {
		return 0
	}
	return min(len(l.queue), n.capacity(n.taken(first), first.shape))
}

// alike reports whether all pods of a gang have the same shape, which has nothing to do with other pods, and none is
// nominated.
func (n *Node) alike(l *line) bool {
	s := l.queue[0].shape
	return len(l.gang.shapes) == 1 && l.gang.kept == 0 && len(s.own)+len(s.Matches) == 0
}

// fitting returns the pods of a gang that fit together, in their order, and all that would fit if the node were empty.
func (n *Node) fitting(l *line) (fit, able []*waiter) {
	if able = n.able(l); len(able) == 0 {
		return nil, nil
	}
	n.without(l.queue, func() {
		taken := load.Sum{}
		taken.Merge(n.taken(able[0]))
		for _, w := range able {
			if n.fits(&taken, w.shape) {
				taken.Add(w.shape.One, 1)
				fit = append(fit, w)
			}
		}
	})
	return fit, able
}

// able returns the pods of a gang that would fit if the node were empty, in their order.
func (n *Node) able(l *line) (able []*waiter) {
	n.steps += 2 * len(l.queue)
	for _, w := range slices.SortedFunc(slices.Values(l.queue), func(a, b *waiter) int {
		if a.Before(b) {
			return -1
		}
		return 1
	}) {
		if n.unfit(w.shape) == "" {
			able = append(able, w)
		}
	}
	return able
}

func (n *Node) bind(pods []*waiter) (uids []types.UID) {
	for _, w := range pods {
		n.leave(w)
		n.occupy(&bound{Pod: w.Pod}, false)
		uids = append(uids, w.UID)
	}
	return uids
}
