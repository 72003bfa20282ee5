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
}

// slot is what a function holds of a limiter while it runs. Only the function itself may call its methods, except Leave.
type slot struct {
	limit *limiter
	lent  *time.Timer // calls Leave when Hold takes too long; nil outside of Hold
	mu    sync.Mutex
	held  bool
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
	if s.lent != nil {
		s.lent.Reset(patience)
	}
}

// Hold runs fn, and lets others have the slot when fn takes longer than patience.
func (s *slot) Hold(fn func()) {
	s.lent = time.AfterFunc(patience, s.Leave)
	fn()
	s.lent.Stop()
	s.lent = nil
	s.Return()
}

// Leave gives the slot back, if it is held.
func (s *slot) Leave() {
	s.mu.Lock()
	held := s.held
	s.held = false
	s.mu.Unlock()
	if held {
		s.limit.release()
	}
}

// Return waits until a slot is free again, unless this one is still held.
func (s *slot) Return() {
	s.mu.Lock()
	held := s.held
	s.mu.Unlock()
	if held {
		return
	}
	again := make(chan struct{})
	l := s.limit
	l.mu.Lock()
	l.resumed = append(l.resumed, again)
	l.pump()
	l.mu.Unlock()
	<-again
	s.mu.Lock()
	s.held = true
	s.mu.Unlock()
}

func (l *limiter) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free++
	l.pump()
}

// pump hands out the slots that are free, first to the functions that have yielded.
func (l *limiter) pump() {
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
