package storage

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// maxPageBytes is how many bytes of objects, as they are stored, are enough for a page of a list. The limit of a request is
	// an upper bound, and a page of 500 objects could have 1.5 GB.
	maxPageBytes = 4 << 20
	// maxGuess is for how many objects of a page memory is taken before they are read.
	maxGuess = 500
	// smallObject is the size up to which a single object is not worth counting.
	smallObject = 64 << 10
	// updateFactor is how much memory an update takes, in bytes for each that is stored: for the value as it is and as it will be,
	// the object before and after, and what a patch makes of it in JSON. A merge patch of 2.9 MB takes 17.7 MB.
	updateFactor = 6
	// deleteFactor is how much a deletion takes, besides the object that its handler has read: the value, and the object twice.
	deleteFactor = 3
)

// Memory is what a request may hold. Grow waits until it may hold n bytes more, and reports whether it may; Shrink gives n back.
type Memory interface {
	Grow(ctx context.Context, n int) bool
	Shrink(n int)
}

type memoryKey struct{}

// WithMemory makes reads of a request count in m the objects that they return, as they are stored. Whoever calls this knows
// when the request has ended.
func WithMemory(ctx context.Context, m Memory) context.Context {
	return context.WithValue(ctx, memoryKey{}, m)
}

type (
	updatingKey struct{}
	passingKey  struct{}
)

// Updating makes reads count as much as an update takes: one that is only tried (dryRun) reads, and writes nothing.
func Updating(ctx context.Context) context.Context {
	return context.WithValue(ctx, updatingKey{}, true)
}

// Passing makes single objects count only while something is done with them, for a request that keeps none of them.
func Passing(ctx context.Context) context.Context { return context.WithValue(ctx, passingKey{}, true) }

// Hold counts n bytes that a request is about to hold.
func Hold(ctx context.Context, n int) error {
	if m, ok := ctx.Value(memoryKey{}).(Memory); ok && !m.Grow(ctx, n) {
		if err := ctx.Err(); err != nil {
			return err
		}
		return apierrors.NewTooManyRequests("requests of this client, or of all clients together, hold as much memory as they may: "+
			"read what they have answered, or ask for pages (limit)", 1)
	}
	return nil
}

// holding is what is counted for one object while something is done with it that takes factor times as much memory.
type holding struct {
	ctx    context.Context
	factor int
	bytes  int
	began  func()
}

// covers reports whether enough is counted for an object of a size.
func (h *holding) covers(size int) bool { return size <= smallObject || size*h.factor <= h.bytes }

// grow counts what an object of a size takes. The request holds it until the end of what has begun, at least.
func (h *holding) grow(size int) error {
	if h.began == nil {
		end, err := Begin(h.ctx)
		if err != nil {
			return err
		}
		h.began = end
	}
	more := size*h.factor - h.bytes
	if err := Hold(h.ctx, more); err != nil {
		return err
	}
	h.bytes += more
	return nil
}

// end gives back what is not part of the answer: that is one object.
func (h *holding) end() {
	if h.began == nil {
		return
	}
	rest := h.bytes
	if h.ctx.Value(passingKey{}) == nil {
		rest -= h.bytes / h.factor
	}
	if m, ok := h.ctx.Value(memoryKey{}).(Memory); ok && rest > 0 {
		m.Shrink(rest)
	}
	h.began()
}
