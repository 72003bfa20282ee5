package worker

import (
	"sync"
	"time"
)

// limiter bounds how many functions run at a time. A function that waits for its turn costs no goroutine.
type limiter struct {
	mu      sync.Mutex
	free    int
	waiting []func(*room)   // not begun
	resumed []chan struct{} // begun, and to go on after they have yielded
}

// room is what a function takes up of a limiter while it runs. All of its methods but Leave are for the function alone.
type room struct {
	limit *limiter
	lent  *time.Timer // leaves it when Hold takes too long; nil outside of Hold
	mu    sync.Mutex
	held  bool
}

// Go calls fn in a goroutine of its own once there is room.
func (l *limiter) Go(fn func(*room)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, fn)
	l.pump()
}

// Yield returns the room to others while wait blocks.
func (r *room) Yield(wait func()) {
	r.Leave()
	wait()
	r.Return()
	if r.lent != nil {
		r.lent.Reset(patience)
	}
}

// Hold runs fn, and returns the room to others when that takes more than a moment.
func (r *room) Hold(fn func()) {
	r.lent = time.AfterFunc(patience, r.Leave)
	fn()
	r.lent.Stop()
	r.lent = nil
	r.Return()
}

// Leave returns the room to others, if it is held.
func (r *room) Leave() {
	r.mu.Lock()
	held := r.held
	r.held = false
	r.mu.Unlock()
	if held {
		r.limit.release()
	}
}

// Return waits until there is room again, unless it is still held.
func (r *room) Return() {
	r.mu.Lock()
	held := r.held
	r.mu.Unlock()
	if held {
		return
	}
	again := make(chan struct{})
	l := r.limit
	l.mu.Lock()
	l.resumed = append(l.resumed, again)
	l.pump()
	l.mu.Unlock()
	<-again
	r.mu.Lock()
	r.held = true
	r.mu.Unlock()
}

func (l *limiter) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free++
	l.pump()
}

// pump fills the room that is free, first with the functions that have yielded.
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
				r := &room{limit: l, held: true}
				defer r.Leave()
				fn(r)
			}()
		default:
			return
		}
		l.free--
	}
}
