package worker

import "sync"

// limiter bounds how many functions run at a time. A function that waits for its turn costs no goroutine.
type limiter struct {
	mu      sync.Mutex
	free    int
	waiting []func()        // not begun
	resumed []chan struct{} // begun, and to go on after they have yielded
}

// Go calls fn in a goroutine of its own once there is room.
func (l *limiter) Go(fn func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, fn)
	l.pump()
}

// Yield lends the place of the function that calls it to others while wait blocks.
func (l *limiter) Yield(wait func()) {
	l.release()
	wait()
	again := make(chan struct{})
	l.mu.Lock()
	l.resumed = append(l.resumed, again)
	l.pump()
	l.mu.Unlock()
	<-again
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
				defer l.release()
				fn()
			}()
		default:
			return
		}
		l.free--
	}
}
