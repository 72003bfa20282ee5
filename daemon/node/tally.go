package node

import (
	"maps"
	"math"
	"slices"

	"github.com/jobd/jobd/daemon/relation"
	"github.com/jobd/jobd/daemon/requests"
)

// tally is what a number of pods take of a node together.
type tally struct {
	pods    int
	ending  int // of them
	pausing int // of them: they give their CPU away before long
	// present are those of the pods that are counted as others already: they wait for their CPU only (Displaced).
	present int
	amounts requests.Resources
	ports   requests.Ports
	// matches are the pods that each rule counts, leaving those of them that are ending, and holds the pods that keep
	// others away by it.
	matches, leaving, holds map[int]int
}

func count(in *map[int]int, id, times int) {
	if *in == nil {
		*in = map[int]int{}
	}
	if (*in)[id] += times; (*in)[id] == 0 {
		delete(*in, id)
	}
}

func (t *tally) add(p *Pod, times int) {
	t.pods += times
	if p.shape.continues {
		t.present += times
	}
	if t.amounts == nil {
		t.amounts = requests.Resources{}
	}
	t.amounts.Add(p.shape.ask, int64(times))
	for _, id := range p.shape.matches {
		count(&t.matches, id, times)
	}
	for _, own := range p.shape.own {
		if own.Kind == relation.AntiAffinity {
			count(&t.holds, own.id, times)
		}
	}
	t.ports.Add(p.shape.ports, times)
}

func (t *tally) merge(other *tally) {
	t.pods += other.pods
	t.present += other.present
	if t.amounts == nil {
		t.amounts = requests.Resources{}
	}
	t.amounts.Add(other.amounts, 1)
	for _, c := range []struct{ to, from *map[int]int }{
		{&t.matches, &other.matches}, {&t.leaving, &other.leaving}, {&t.holds, &other.holds},
	} {
		for id, times := range *c.from {
			count(c.to, id, times)
		}
	}
	t.ports.Merge(other.ports)
}

// full reports whether no more pods are taken by a node that takes so many.
func (t *tally) full(maxPods int) bool { return t.pods-t.present >= maxPods }

// levels are the tallies of each priority, and of all pods.
type levels struct {
	all tally
	by  map[int32]*tally
}

func newLevels() levels { return levels{by: map[int32]*tally{}} }

func (l *levels) add(p *Pod, times int) {
	l.all.add(p, times)
	level := l.by[p.Priority]
	if level == nil {
		level = &tally{}
		l.by[p.Priority] = level
	}
	if level.add(p, times); level.pods == 0 {
		delete(l.by, p.Priority)
	}
}

func (l *levels) end(p *Pod, ending bool) {
	times := 1
	if !ending {
		times = -1
	}
	l.by[p.Priority].ending += times
	for _, id := range p.shape.matches {
		count(&l.all.leaving, id, times)
		count(&l.by[p.Priority].leaving, id, times)
	}
}

// from returns what pods of at least that priority take.
func (l *levels) from(priority int32) tally {
	sum := tally{}
	for p, level := range l.by {
		if p >= priority {
			sum.merge(level)
		}
	}
	return sum
}

// below returns the number of pods of a lower priority, and of those among them that are ending, or being paused for others.
func (l *levels) below(priority int32) (pods, ending int) {
	for p, level := range l.by {
		if p < priority {
			pods += level.pods
			ending += level.ending + level.pausing
		}
	}
	return pods, ending
}

// taken returns what is not available to a pod that waits: what is used, and what is withheld from it. It must not be changed.
func (n *Node) taken(w *waiter) *tally {
	if n.reserved.all.pods == 0 && len(n.wishes) == 0 && n.keptFrom(w) == nil {
		return &n.used.all
	}
	sum := n.withheld(w)
	sum.merge(&n.used.all)
	return &sum
}

// without calls ask as if nothing were reserved for those pods.
func (n *Node) without(pods []*waiter, ask func()) {
	for _, w := range pods {
		if w.nominated {
			n.reserved.add(w.Pod, -1)
			defer n.reserved.add(w.Pod, 1)
		}
	}
	ask()
}

// withheld returns what is reserved for pods of at least the priority of one that waits, what those of them wait for that are to become
// larger, and what is kept for one that has waited for too long.
func (n *Node) withheld(w *waiter) tally {
	sum := n.reserved.from(w.Priority)
	for _, wish := range n.wishes {
		if wish.priority >= w.Priority {
			sum.merge(&tally{amounts: wish.extra})
		}
	}
	if r := n.keptFrom(w); r != nil {
		sum.merge(&r.needs)
	}
	return sum
}

// unfit returns why the node takes no pod of that shape even if it is empty.
func (n *Node) unfit(s *shape) string {
	if s.continues {
		return "" // it is on the node
	}
	if !s.judged {
		s.unfit, s.judged = n.facts.Unfit(&s.terms), true
		s.selected, s.untolerated = n.facts.Selected(&s.terms), n.facts.Repels(&s.terms)
	}
	if s.crowded && s.unfit == "" {
		return "1 " + crowd
	}
	return s.unfit
}

// fits reports whether one such pod fits beside what is taken.
func (n *Node) fits(taken *tally, s *shape) bool {
	if !s.continues && taken.full(n.MaxPods) || taken.ports.Busy(s.ports) {
		return false
	}
	if why, _ := n.apart(taken, s); why != "" {
		return false
	}
	if n.Allocatable == nil {
		return true
	}
	for name, amount := range s.ask {
		if amount > n.freeFor(taken, s, name) {
			return false
		}
	}
	return true
}

// capacity returns how many such pods fit beside what is taken.
func (n *Node) capacity(taken *tally, s *shape) int {
	if !n.fits(taken, s) {
		return 0
	}
	if len(s.ports) > 0 {
		return 1
	}
	most := n.MaxPods - taken.pods + taken.present
	if s.continues {
		most = math.MaxInt
	}
	if n.Allocatable != nil {
		for name, amount := range s.ask {
			most = min(most, int(n.free(taken, name)/amount))
		}
	}
	return most
}

// short returns what one such pod lacks beside what is taken, in a scheduler's words, and whether it would lack that on
// the empty node too.
func (n *Node) short(taken *tally, s *shape) (names []string, hopeless bool) {
	if !s.continues && taken.full(n.MaxPods) {
		names = append(names, "Too many pods")
		hopeless = n.MaxPods < 1
	}
	if n.Allocatable == nil {
		return names, hopeless
	}
	for _, name := range slices.Sorted(maps.Keys(s.ask)) {
		amount := s.ask[name]
		if amount > n.freeFor(taken, s, name) {
			names = append(names, "Insufficient "+string(name))
			hopeless = hopeless || amount > n.Allocatable[name]
		}
	}
	slices.Sort(names)
	return names, hopeless
}
