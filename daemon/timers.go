package daemon

import (
	"container/heap"
	"time"
)

// timers holds at most one due time for each key: the next moment at which time alone changes something for an
// object. Setting and clearing cost O(log n).
//
// A time of day comes sooner or later when somebody sets the clock, one that was counted from now does not: those are kept
// apart, since which of two of them comes first is not settled once and for all.
type timers[K comparable] struct {
	byKey         map[K]*timer[K]
	counted, told timerHeap[K]
}

type timer[K comparable] struct {
	key   K
	due   time.Time
	heap  *timerHeap[K]
	index int
}

func newTimers[K comparable]() *timers[K] {
	return &timers[K]{byKey: map[K]*timer[K]{}}
}

// Set makes key due at that time; the zero time clears it.
func (t *timers[K]) Set(key K, due time.Time) {
	in := &t.told
	if due != due.Round(0) { // it has a monotonic reading
		in = &t.counted
	}
	old, ok := t.byKey[key]
	if ok && old.heap == in && !due.IsZero() {
		old.due = due
		heap.Fix(in, old.index)
		return
	}
	if ok {
		heap.Remove(old.heap, old.index)
		delete(t.byKey, key)
	}
	if !due.IsZero() {
		n := &timer[K]{key: key, due: due, heap: in}
		t.byKey[key] = n
		heap.Push(in, n)
	}
}

// Next is the earliest due time, zero if there is none.
func (t *timers[K]) Next(now time.Time) time.Time {
	if first := t.first(now); first != nil {
		return (*first)[0].due
	}
	return time.Time{}
}

// first gives the heap that the earliest timer is in, nil if there is none.
func (t *timers[K]) first(now time.Time) *timerHeap[K] {
	switch {
	case len(t.counted)+len(t.told) == 0:
		return nil
	case len(t.counted) == 0:
		return &t.told
	case len(t.told) == 0 || t.counted[0].due.Sub(now) < t.told[0].due.Sub(now):
		return &t.counted
	}
	return &t.told
}

// Due takes out the keys that are due at now, the earliest first, and leaves those that are more than most.
func (t *timers[K]) Due(now time.Time, most int) []K {
	var due []K
	for first := t.first(now); first != nil && len(due) < most && !(*first)[0].due.After(now); first = t.first(now) {
		n := heap.Pop(first).(*timer[K])
		delete(t.byKey, n.key)
		due = append(due, n.key)
	}
	return due
}

type timerHeap[K comparable] []*timer[K]

func (h timerHeap[K]) Len() int           { return len(h) }
func (h timerHeap[K]) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h timerHeap[K]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *timerHeap[K]) Push(x any) {
	n := x.(*timer[K])
	n.index = len(*h)
	*h = append(*h, n)
}
func (h *timerHeap[K]) Pop() any {
	last := len(*h) - 1
	n := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return n
}
