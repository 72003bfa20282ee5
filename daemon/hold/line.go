package hold

import (
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/internal/heap"
	"github.com/jobd/jobd/store"
)

// Line is a concurrency group in which Jobs wait, or have places.
type Line struct {
	Limit int
	// Holders are the keys of the Jobs that have the places, and Waiting those of the first that wait, in order. More wait behind them.
	Holders, Waiting []string
	More             int
	// Replaces says that the first of those that wait makes its place itself.
	Replaces bool
}

// LineAhead is of how many Jobs that wait for a place it is told in which order they come.
const LineAhead = 100

// Lines returns the groups in which Jobs wait or have places, by namespace and name, each with the first that wait.
func (h *Holds) Lines() map[[2]string]Line {
	lines := map[[2]string]Line{}
	for key, of := range h.groups.all {
		lines[[2]string{key.namespace, key.name}] = of.line()
	}
	return lines
}

func (of *group) line() Line {
	limits := &member{Concurrency: core.Concurrency{Limit: math.MaxInt}}
	if first := of.first(); first != nil {
		limits = first
	}
	l := Line{Limit: limitOf(limits, of.list()), Replaces: len(of.replacers) > 0}
	for _, holder := range of.holders {
		l.Holders = append(l.Holders, store.Key(objects.Jobs, holder.Namespace, holder.Job))
	}
	slices.Sort(l.Holders)
	inOrder := func(a, b *member) int {
		if a.Before(b) {
			return -1
		}
		return 1
	}
	for _, waiting := range []heap.Heap[*member]{of.replacers, of.queue} {
		var ahead []*member // no more than may be told, in order
		room := LineAhead - len(l.Waiting)
		for _, m := range waiting {
			if len(ahead) == room {
				if l.More++; room == 0 || !m.Before(ahead[room-1]) {
					continue
				}
				ahead = ahead[:room-1]
			}
			at, _ := slices.BinarySearchFunc(ahead, m, inOrder)
			ahead = slices.Insert(ahead, at, m)
		}
		for _, m := range ahead {
			l.Waiting = append(l.Waiting, m.key)
		}
	}
	return l
}

// Wait is what a Job waits for that has no place in its group.
type Wait struct {
	Group string
	Limit int
	// Holders are the Jobs that have the places, by name, and Ahead how many others come before.
	Holders []string
	Ahead   int
}

// Group returns the name of the group in which a Job waits for a place; false if it does not.
func (h *Holds) Group(uid types.UID) (string, bool) {
	m := h.groups.waits[uid]
	if m == nil {
		return "", false
	}
	return m.Group, true
}

// WaitOf returns what a Job waits for; false if it does not.
func (h *Holds) WaitOf(uid types.UID) (Wait, bool) {
	m := h.groups.waits[uid]
	if m == nil {
		return Wait{}, false
	}
	namespace, _ := objects.NameOf(m.key)
	w := Wait{Group: m.Group, Limit: m.Limit}
	of := h.groups.all[groupKey{namespace, m.Group}]
	if of == nil {
		return w, true
	}
	w.Limit = limitOf(m, of.list())
	for _, holder := range of.holders {
		w.Holders = append(w.Holders, holder.Job)
	}
	slices.Sort(w.Holders)
	for _, o := range *of.heapOf(m) {
		if o != m && o.Before(m) {
			w.Ahead++
		}
	}
	if m.Policy != core.ReplaceConcurrent {
		w.Ahead += len(of.replacers)
	}
	return w, true
}
