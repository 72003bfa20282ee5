package image

import (
	"context"
	"sync"

	"github.com/jobd/jobd/runtime"
)

// flights does a thing once for all who ask for it at the same time. Each of them may give up alone; when the last one
// does, the work is cancelled.
type flights struct {
	mu      sync.Mutex
	running map[string]*flight
}

type flight struct {
	cancel  context.CancelFunc
	waiting map[*waiter]struct{}
	last    string // latest line of progress

	done  chan struct{} // closed when image and err are set
	image runtime.Image
	err   error
}

// waiter holds the latest line that its owner has not seen yet, so that a slow reader delays nobody.
type waiter struct{ lines chan string }

// do waits for the work with this key, and starts it unless it is under way. Progress, if not nil, is called by the
// waiting goroutine.
func (f *flights) do(ctx context.Context, key string, progress func(string),
	work func(ctx context.Context, report func(string)) (runtime.Image, error)) (runtime.Image, error) {
	w := &waiter{lines: make(chan string, 1)}
	l := f.join(ctx, key, w, work)
	defer f.leave(key, l, w)
	if progress == nil {
		progress = func(string) {}
	}
	for {
		select {
		case line := <-w.lines:
			progress(line)
		case <-l.done:
			select {
			case line := <-w.lines:
				progress(line)
			default:
			}
			return l.image, l.err
		case <-ctx.Done():
			return runtime.Image{}, context.Cause(ctx)
		}
	}
}

func (f *flights) join(ctx context.Context, key string, w *waiter,
	work func(ctx context.Context, report func(string)) (runtime.Image, error)) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l, ok := f.running[key]; ok {
		l.waiting[w] = struct{}{}
		if l.last != "" {
			w.lines <- l.last
		}
		return l
	}
	if f.running == nil {
		f.running = map[string]*flight{}
	}
	l := &flight{waiting: map[*waiter]struct{}{w: {}}, done: make(chan struct{})}
	f.running[key] = l
	ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer l.cancel()
		image, err := work(ctx, func(line string) { f.report(l, line) })
		f.mu.Lock()
		defer f.mu.Unlock()
		f.drop(key, l)
		l.image, l.err = image, err
		close(l.done)
	}()
	return l
}

func (f *flights) leave(key string, l *flight, w *waiter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(l.waiting, w)
	if len(l.waiting) == 0 {
		// Callers that come now must not join work that is being cancelled.
		f.drop(key, l)
		l.cancel()
	}
}

func (f *flights) drop(key string, l *flight) {
	if f.running[key] == l {
		delete(f.running, key)
	}
}

func (f *flights) report(l *flight, line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l.last = line
	for w := range l.waiting {
		select {
		case <-w.lines:
		default:
		}
		w.lines <- line
	}
}
