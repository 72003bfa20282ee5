package storage

import (
	"cmp"
	"context"
	"errors"
	"sync"
)

// Work is what is done for a request. The handlers give some of it up when its time is over, and it goes on: what the request holds
// is let go of when it has ended.
type Work struct {
	mu       sync.Mutex
	going    int
	answered bool
	after    []func()
}

type workKey struct{}

var errAnswered = errors.New("the request has been answered")

// WithWork makes Begin count in w what is done for a request.
func WithWork(ctx context.Context, w *Work) context.Context {
	return context.WithValue(ctx, workKey{}, w)
}

// After lets something be done when the request has been answered, and all that was begun for it has ended: the last that was given
// comes first.
func (w *Work) After(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.after = append(w.after, f)
}

// Answered says that the request has been answered, or given up. Nothing more is begun for it.
func (w *Work) Answered() {
	w.mu.Lock()
	w.answered = true
	w.endIfOver()
}

// endIfOver unlocks the work, and ends it if nothing goes on.
func (w *Work) endIfOver() {
	var after []func()
	if w.answered && w.going == 0 {
		after, w.after = w.after, nil
	}
	w.mu.Unlock()
	for i := len(after) - 1; i >= 0; i-- {
		after[i]()
	}
}

// Begin says that something is done for the request of a context, until end is called. It is an error if that has been given up.
func Begin(ctx context.Context) (end func(), err error) {
	w, ok := ctx.Value(workKey{}).(*Work)
	if !ok {
		return func() {}, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.answered {
		return nil, cmp.Or(context.Cause(ctx), errAnswered)
	}
	w.going++
	return sync.OnceFunc(func() {
		w.mu.Lock()
		w.going--
		w.endIfOver()
	}), nil
}
