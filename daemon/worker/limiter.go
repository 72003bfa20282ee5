package worker

import (
	"sync"
	"time"
)

// limiter bounds how many functions run at a time: each holds a slot. A function that has not begun costs no goroutine.
type limiter struct {
	mu      sync.Mutex
	free    int
	waiting []func(*slot)   // not begun
	resumed []chan struct{} // begun; each has yielded its slot and waits for another one
	// lendable is how many more slots may be lent to others while Hold takes long, lenders are those that would.
	lendable int
	lenders  []*slot
}

// lendingFactor is how many times as many functions may run where slots are lent. Without a bound each pod that hangs
// would cost the machine a further process of the OCI runtime.
const lendingFactor = 4

func newLimiter(slots int) limiter {
	return limiter{free: slots, lendable: (lendingFactor - 1) * slots}
}

// slot is what a function holds of a limiter while it runs. Only the function itself may call its methods.
type slot struct {
	limit *limiter
	timer *time.Timer // calls lend when Hold takes too long; nil outside of Hold

	// Guarded by limit.mu.
	held bool
	lent bool // by lend
}

// Go calls fn in a goroutine of its own once a slot is free.
func (l *limiter) Go(fn func(*slot)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, fn)
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
		l.free++
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
	l.resumed = append(l.resumed, again)
	l.pump()
	l.mu.Unlock()
	<-again
	l.mu.Lock()
	s.held = true
	l.mu.Unlock()
}

// keep ends the lending of a slot. mu is held.
func (l *limiter) keep(s *slot) {
	for i, other := range l.lenders {
		if other == s {
			l.lenders = append(l.lenders[:i:i], l.lenders[i+1:]...)
			break
		}
	}
	if s.lent {
		s.lent = false
		l.lendable++
	}
}

// pump hands out the slots that are free or can be lent, first to the functions that have yielded. mu is held.
func (l *limiter) pump() {
	for l.lendable > 0 && len(l.lenders) > 0 {
		s := l.lenders[0]
		l.lenders = l.lenders[1:]
		if s.held {
			s.held, s.lent = false, true
			l.lendable--
			l.free++
		}
	}
	for l.free > 0 {
		switch {
		case len(l.resumed) > 0:
			close(l.resumed[0])
			l.resumed = l.resumed[1:]
		case len(l.waiting) > 0:
			fn := l.waiting[0]
			l.waiting[0] = nil
			l.waiting = l.waiting[1:]
			go func() {
				s := &slot{limit: l, held: true}
				defer s.Leave()
				fn(s)
			}()
		default:
			return
		}
		l.free--
	}
}
