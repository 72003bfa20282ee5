package worker

import (
	"slices"
	"sync"
	"time"

	"github.com/jobd/jobd/internal/heap"
)

// limiter bounds how many functions run at a time: each holds a slot. A function that has not begun costs no goroutine.
//
// Slots are divided among tenants. Whoever holds least is given the next one, so that a tenant waits for its own functions and
// not for the thousands of another one. A slot whose function takes long is lent to others, and of those that are held or lent
// one tenant has at most a part: with whatever its functions hang, something is left for the next tenant.
type limiter struct {
	mu      sync.Mutex
	tenants map[string]*tenant // that have slots or wait for some
	waiting heap.Heap[*tenant] // that wait for some
	turns   uint64
	free    int
	// out is how many slots are held or lent, all is how many may be.
	out, all int
	// lendable is how many more slots may be lent to others while Hold takes long, lenders are those that would.
	lendable int
	lenders  []*slot
}

const (
	// lendingFactor is how many times as many functions of one tenant may run where slots are lent. Without a bound each pod
	// that hangs would cost the machine a further process of the OCI runtime.
	lendingFactor = 4
	// One tenant has at most shareOf of shareIn parts of the slots that others leave, but at least one. So the first that has
	// all of its share leaves others as many slots as run at a time where nothing hangs.
	shareOf, shareIn = lendingFactor, lendingFactor + 1
)

func newLimiter(slots int) limiter {
	return limiter{tenants: map[string]*tenant{}, free: slots, all: shareIn * slots, lendable: shareOf * slots}
}

// tenant is who functions run for.
type tenant struct {
	name    string
	held    int           // slots that count as used
	lent    int           // slots of functions that take long
	begun   []*slot       // of functions that have yielded theirs and wait for another one
	waiting []func(*slot) // not begun
	turn    uint64        // the lower, the longer ago it was given a slot
	at      int           // in limiter.waiting; -1 outside
}

// Before implements heap.Element: whoever holds least comes first, and of those that hold the same the one that has been given
// nothing for longest. What is lent does not count, so that who has pods that hang gets on with its other ones.
func (t *tenant) Before(o *tenant) bool {
	if t.held != o.held {
		return t.held < o.held
	}
	return t.turn < o.turn
}

// Moved implements heap.Element.
func (t *tenant) Moved(to int) { t.at = to }

func (t *tenant) waits() int { return len(t.begun) + len(t.waiting) }

// slot is what a function holds of a limiter while it runs. Only the function itself may call its methods.
type slot struct {
	limit *limiter
	timer *time.Timer // calls lend when Hold takes too long; nil outside of Hold

	// Guarded by limit.mu.
	of    *tenant
	held  bool
	lent  bool          // by lend
	again chan struct{} // closed once it is held again
}

// Go calls fn in a goroutine of its own once a slot is free for a tenant.
func (l *limiter) Go(name string, fn func(*slot)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tenant(name)
	t.waiting = append(t.waiting, fn)
	l.sort(t)
	l.pump()
}

// Yield lets others have the slot while wait blocks.
func (s *slot) Yield(wait func()) {
	s.Leave()
	wait()
	s.Return()
	if s.timer != nil {
		s.timer.Reset(patience)
	}
}

// Hold runs fn, and lets others have the slot when fn takes longer than patience, unless too many are lent already.
func (s *slot) Hold(fn func()) {
	s.timer = time.AfterFunc(patience, s.lend)
	fn()
	s.timer.Stop()
	s.timer = nil
	s.Return()
}

// lend gives the slot to others, at once or when others have got theirs back.
func (s *slot) lend() {
	l := s.limit
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lenders = append(l.lenders, s)
	l.pump()
}

// Leave gives the slot back, if it is held.
func (s *slot) Leave() {
	l := s.limit
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keep(s)
	if s.held {
		s.held = false
		s.of.held--
		l.out--
		l.free++
		l.sort(s.of)
	}
	l.pump()
}

// Return waits until a slot is free again, unless this one is still held.
func (s *slot) Return() {
	l := s.limit
	l.mu.Lock()
	l.keep(s)
	if s.held {
		l.mu.Unlock()
		return
	}
	again := make(chan struct{})
	s.again = again
	s.of = l.tenant(s.of.name) // without a slot it may have been forgotten
	s.of.begun = append(s.of.begun, s)
	l.sort(s.of)
	l.pump()
	l.mu.Unlock()
	<-again
}

// keep ends the lending of a slot. mu is held.
func (l *limiter) keep(s *slot) {
	l.lenders = slices.DeleteFunc(l.lenders, func(other *slot) bool { return other == s })
	if s.lent {
		s.lent = false
		s.of.lent--
		l.out--
		l.lendable++
		l.sort(s.of)
	}
}

// tenant returns the tenant of a name. mu is held.
func (l *limiter) tenant(name string) *tenant {
	t := l.tenants[name]
	if t == nil {
		t = &tenant{name: name, turn: l.turns, at: -1}
		l.turns++
		l.tenants[name] = t
	}
	return t
}

// sort puts a tenant that has changed where it belongs, or forgets it. mu is held.
func (l *limiter) sort(t *tenant) {
	switch {
	case t.waits() > 0 && t.at < 0:
		l.waiting.Push(t)
	case t.waits() > 0:
		l.waiting.Fix(t.at)
	case t.at >= 0:
		l.waiting.Remove(t.at)
		t.at = -1
	}
	if t.waits() == 0 && t.held == 0 && t.lent == 0 {
		delete(l.tenants, t.name)
	}
}

// mayHave reports whether a tenant may be given another slot. mu is held.
func (l *limiter) mayHave(t *tenant) bool {
	own := t.held + t.lent
	return own == 0 || (own+1)*shareIn <= (l.all-(l.out-own))*shareOf
}

// pump hands out the slots that are free or can be lent. mu is held.
func (l *limiter) pump() {
	for l.lendable > 0 && len(l.lenders) > 0 {
		s := l.lenders[0]
		l.lenders = l.lenders[1:]
		if s.held {
			s.held, s.lent = false, true
			s.of.held--
			s.of.lent++
			l.lendable--
			l.free++
			l.sort(s.of)
		}
	}
	var full []*tenant // few: each has slots
	for l.free > 0 && len(l.waiting) > 0 {
		if t := l.waiting[0]; l.mayHave(t) {
			l.give(t)
		} else {
			full = append(full, t)
			l.waiting.Pop()
			t.at = -1
		}
	}
	for _, t := range full {
		l.sort(t)
	}
}

// give hands a free slot to a tenant that waits: first to a function that has yielded. mu is held.
func (l *limiter) give(t *tenant) {
	l.free--
	l.out++
	t.held++
	t.turn = l.turns
	l.turns++
	if len(t.begun) > 0 {
		s := t.begun[0]
		t.begun[0] = nil
		t.begun = t.begun[1:]
		s.held = true
		close(s.again)
	} else {
		fn := t.waiting[0]
		t.waiting[0] = nil
		t.waiting = t.waiting[1:]
		go func() {
			s := &slot{limit: l, of: t, held: true}
			defer s.Leave()
			fn(s)
		}()
	}
	l.sort(t)
}
