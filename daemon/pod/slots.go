package pod

import "sync"

// slots bounds how many pods are worked on at a time. What waits costs no goroutine.
type slots struct {
	mu      sync.Mutex
	free    int
	waiting []func()        // not begun
	resumed []chan struct{} // begun, had given their slot away
}

// run calls fn in a goroutine of its own, once a slot is free.
func (s *slots) run(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, fn)
	s.pump()
}

// away gives the caller's slot to others while wait waits.
func (s *slots) away(wait func()) {
	s.release()
	wait()
	again := make(chan struct{})
	s.mu.Lock()
	s.resumed = append(s.resumed, again)
	s.pump()
	s.mu.Unlock()
	<-again
}

func (s *slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	s.pump()
}

// pump fills the free slots, first with those that had one before.
func (s *slots) pump() {
	for s.free > 0 {
		switch {
		case len(s.resumed) > 0:
			close(s.resumed[0])
			s.resumed = s.resumed[1:]
		case len(s.waiting) > 0:
			fn := s.waiting[0]
			s.waiting[0] = nil
			s.waiting = s.waiting[1:]
			go func() {
				defer s.release()
				fn()
			}()
		default:
			return
		}
		s.free--
	}
}
