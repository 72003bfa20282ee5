package image

import (
	"context"
	"slices"
	"sync"
)

// maxPulls is how many images are pulled at a time for one tenant. Each may take some megabytes of memory for as long as its
// registry likes.
const maxPulls = 5

// shares bound how many pulls each tenant has under way. Whoever has none waits for nobody else.
type shares struct {
	mu sync.Mutex
	of map[string]*share // of tenants that have pulls
}

type share struct {
	running map[string]int // how many wait for the end of each pull
	waiting []*turn        // for the begin of one, the oldest first
}

type turn struct {
	pull string
	come chan struct{} // closed when it is there
}

// take returns once a tenant may begin a pull or join it, and what ends that. It calls waits if that is not at once. The same pull
// counts once, for however many pods it is. No name is no tenant, and waits for nothing.
func (s *shares) take(ctx context.Context, tenant, pull string, waits func()) (end func(), err error) {
	if tenant == "" {
		return func() {}, nil
	}
	s.mu.Lock()
	of := s.of[tenant]
	if of == nil {
		if s.of == nil {
			s.of = map[string]*share{}
		}
		of = &share{running: map[string]int{}}
		s.of[tenant] = of
	}
	end = func() { s.leave(tenant, of, pull) }
	if of.running[pull] > 0 || len(of.running) < maxPulls {
		of.running[pull]++
		s.mu.Unlock()
		return end, nil
	}
	t := &turn{pull: pull, come: make(chan struct{})}
	of.waiting = append(of.waiting, t)
	s.mu.Unlock()
	waits()
	select {
	case <-t.come:
		return end, nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	queued := slices.Contains(of.waiting, t)
	of.waiting = slices.DeleteFunc(of.waiting, func(other *turn) bool { return other == t })
	s.mu.Unlock()
	if !queued { // it has come meanwhile
		end()
	}
	return nil, context.Cause(ctx)
}

func (s *shares) leave(tenant string, of *share, pull string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of.running[pull]--; of.running[pull] > 0 {
		return
	}
	delete(of.running, pull)
	if len(of.waiting) > 0 {
		next := of.waiting[0].pull
		of.waiting = slices.DeleteFunc(of.waiting, func(t *turn) bool {
			if t.pull == next {
				of.running[next]++
				close(t.come)
			}
			return t.pull == next
		})
	}
	if len(of.running) == 0 {
		delete(s.of, tenant)
	}
}
