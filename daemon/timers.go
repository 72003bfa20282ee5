package daemon

import (
	"container/heap"
	"time"
)

// timers holds at most one due time for each key: the next moment at which time alone changes something for an
// object. Setting and clearing cost O(log n).
type timers[K comparable] struct {
	byKey map[K]*timer[K]
	heap  timerHeap[K]
}

type timer[K comparable] struct {
	key   K
	due   time.Time
	index int
}

func newTimers[K comparable]() *timers[K] {
	return &timers[K]{byKey: map[K]*timer[K]{}}
}

// Set makes key due at that time; the zero time clears it.
func (t *timers[K]) Set(key K, due time.Time) {
	old, ok := t.byKey[key]
	switch {
	case due.IsZero() && ok:
		heap.Remove(&t.heap, old.index)
		delete(t.byKey, key)
	case due.IsZero():
	case ok:
		old.due = due
		heap.Fix(&t.heap, old.index)
	default:
		n := &timer[K]{key: key, due: due}
		t.byKey[key] = n
		heap.Push(&t.heap, n)
	}
}

// Next is the earliest due time, zero if there is none.
func (t *timers[K]) Next() time.Time {
	if len(t.heap) == 0 {
		return time.Time{}
	}
	return t.heap[0].due
}

// Due takes out the keys that are due at now, the earliest first, and leaves those that are more than most.
func (t *timers[K]) Due(now time.Time, most int) []K {
	var due []K
	for len(due) < most && len(t.heap) > 0 && !t.heap[0].due.After(now) {
		n := heap.Pop(&t.heap).(*timer[K])
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
