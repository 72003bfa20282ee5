package memory

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// little is what nobody is charged for.
	little = 1 << 20
	// again is how long after one look the next one is taken.
	again = 10 * time.Second
)

// Left is memory that pods have left when they ended: files in memory, and sockets. A pod can give both to another one, through a UNIX socket
// in a volume that both have, and there they count for nobody: no limit holds them, and who has them would be the last to be evicted.
// Who has them is not to be seen (they may be on their way through a socket, for as long as one likes). But volumes are shared in a
// namespace only, so what its pods have left counts for each that runs there.
type Left struct {
	Logger *slog.Logger

	mu   sync.Mutex
	all  map[string]Remains
	more chan struct{} // has a value when there is some
}

// Remains are what one pod has left.
type Remains struct {
	Namespace string
	// Bytes returns how much it is now, and Release lets go of what is needed to tell.
	Bytes   func() int64
	Release func() error
}

// NewLeft returns that nothing is left.
func NewLeft(l *slog.Logger) *Left {
	return &Left{Logger: l, all: map[string]Remains{}, more: make(chan struct{}, 1)}
}

// Keep remembers what is left under a name, until it is next to nothing. It reports whether it is more, and otherwise remembers nothing.
func (l *Left) Keep(name string, r Remains) bool {
	if r.Bytes() < little {
		return false
	}
	l.mu.Lock()
	l.all[name] = r
	l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
	return true
}

// Keeps reports whether something is remembered under a name.
func (l *Left) Keeps(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, is := l.all[name]
	return is
}

// Of returns how much is left of each namespace, and forgets what is next to nothing.
func (l *Left) Of() map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	sums := map[string]int64{}
	for name, r := range l.all {
		bytes := r.Bytes()
		if bytes >= little {
			sums[r.Namespace] += bytes
			continue
		}
		if err := r.Release(); err != nil {
			l.Logger.Warn("cannot let go of what a pod has left in memory", "pod", name, "error", err)
			continue
		}
		delete(l.all, name)
	}
	return sums
}

func (l *Left) keepsAny() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all) > 0
}

// Run forgets what is next to nothing, until ctx ends.
func (l *Left) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.more:
		}
		for l.Of(); l.keepsAny(); l.Of() {
			select {
			case <-ctx.Done():
				return
			case <-time.After(again):
			}
		}
	}
}
