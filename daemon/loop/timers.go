package loop

import (
	"time"

	"github.com/jobd/jobd/internal/heap"
)

// Timers holds at most one due time for each key of a controller: the next moment at which time alone changes something
// for an object. Setting and clearing take O(log n).
//
// When somebody sets the clock, a time of day moves closer or farther, while a time that was counted from now does not.
// The two are kept apart, since the clock can change which of them comes first.
type Timers struct {
	byKey         map[timerKey]*timer
	counted, told heap.Heap[*timer]
}

// timerKey is what a time is set for.
type timerKey struct {
	of  Controller
	key string
}

type timer struct {
	key   timerKey
	due   time.Time
	in    *heap.Heap[*timer]
	index int
}

func newTimers() *Timers {
	return &Timers{byKey: map[timerKey]*timer{}}
}

// Set makes the loop call a controller's Due for a key at that time. A zero time clears it.
func (t *Timers) Set(of Controller, name string, due time.Time) {
	key := timerKey{of, name}
	in := &t.told
	if due != due.Round(0) { // it has a monotonic reading
		in = &t.counted
	}
	old, ok := t.byKey[key]
	if ok && old.in == in && !due.IsZero() {
		old.due = due
		in.Fix(old.index)
		return
	}
	if ok {
		old.in.Remove(old.index)
		delete(t.byKey, key)
	}
	if !due.IsZero() {
		n := &timer{key: key, due: due, in: in}
		t.byKey[key] = n
		in.Push(n)
	}
}

// next returns the earliest due time, zero if there is none.
func (t *Timers) next(now time.Time) time.Time {
	if first := t.first(now); first != nil {
		return (*first)[0].due
	}
	return time.Time{}
}

// first returns the heap that has the earliest timer, nil if there is none.
func (t *Timers) first(now time.Time) *heap.Heap[*timer] {
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

// expired removes and returns the keys that are due at now, the earliest first, but no more than most.
func (t *Timers) expired(now time.Time, most int) []timerKey {
	var due []timerKey
	for first := t.first(now); first != nil && len(due) < most && !(*first)[0].due.After(now); first = t.first(now) {
		n := first.Pop()
		delete(t.byKey, n.key)
		due = append(due, n.key)
	}
	return due
}

func (t *timer) Before(other *timer) bool { return t.due.Before(other.due) }
func (t *timer) Moved(to int)             { t.index = to }
