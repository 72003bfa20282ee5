package node

import (
	"maps"
	"math"
	"slices"

	"github.com/jobd/jobd/daemon/load"
)

// taken returns what is not available to a pod that waits: what is used, and what is withheld from it. It must not be changed.
func (n *Node) taken(w *waiter) *load.Sum {
	if n.reserved.All.Pods == 0 && len(n.wishes) == 0 && n.keptFrom(w) == nil {
		return &n.used.All
	}
	sum := n.withheld(w)
	sum.Merge(&n.used.All)
	return &sum
}

// without calls ask as if nothing were reserved for those pods.
func (n *Node) without(pods []*waiter, ask func()) {
	for _, w := range pods {
		if w.nominated {
			n.reserved.Add(w.Priority, w.shape.One, -1)
			defer n.reserved.Add(w.Priority, w.shape.One, 1)
		}
	}
	ask()
}

// withheld returns what is reserved for pods of at least the priority of one that waits, what those of them wait for that are to become
// larger, and what is kept for one that has waited for too long.
func (n *Node) withheld(w *waiter) load.Sum {
	sum := n.reserved.From(w.Priority)
	for _, wish := range n.wishes {
		if wish.priority >= w.Priority {
			sum.Merge(&load.Sum{Amounts: wish.extra})
		}
	}
	if r := n.keptFrom(w); r != nil {
		sum.Merge(&r.needs)
	}
	return sum
}

// unfit returns why the node takes no pod of that shape even if it is empty.
func (n *Node) unfit(s *shape) string {
	if s.Continues {
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
func (n *Node) fits(taken *load.Sum, s *shape) bool {
	if !s.Continues && taken.Full(n.MaxPods) || taken.Ports.Busy(s.Ports) {
		return false
	}
	if why, _ := n.apart(taken, s); why != "" {
		return false
	}
	if n.Allocatable == nil {
		return true
	}
	for name, amount := range s.Ask {
		if amount > n.freeFor(taken, s, name) {
			return false
		}
	}
	return true
}

// capacity returns how many such pods fit beside what is taken.
func (n *Node) capacity(taken *load.Sum, s *shape) int {
	if !n.fits(taken, s) {
		return 0
	}
	if len(s.Ports) > 0 {
		return 1
	}
	most := n.MaxPods - taken.Pods + taken.Continuing
	if s.Continues {
		most = math.MaxInt
	}
	if n.Allocatable != nil {
		for name, amount := range s.Ask {
			most = min(most, int(n.free(taken, name)/amount))
		}
	}
	return most
}

// short returns what one such pod lacks beside what is taken, in a scheduler's words, and whether it would lack that on
// the empty node too.
func (n *Node) short(taken *load.Sum, s *shape) (names []string, hopeless bool) {
	if !s.Continues && taken.Full(n.MaxPods) {
		names = append(names, "Too many pods")
		hopeless = n.MaxPods < 1
	}
	if n.Allocatable == nil {
		return names, hopeless
	}
	for _, name := range slices.Sorted(maps.Keys(s.Ask)) {
		amount := s.Ask[name]
		if amount > n.freeFor(taken, s, name) {
			names = append(names, "Insufficient "+string(name))
			hopeless = hopeless || amount > n.Allocatable[name]
		}
	}
	slices.Sort(names)
	return names, hopeless
}
