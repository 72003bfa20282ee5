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
)

// Memory is what a request may hold. Grow waits until it may hold n bytes more, and reports whether it may.
type Memory interface {
	Grow(ctx context.Context, n int) bool
}

type memoryKey struct{}

// WithMemory makes reads of a request count in m the objects that they return, as they are stored. Whoever calls this knows
// when the request has ended.
func WithMemory(ctx context.Context, m Memory) context.Context {
	return context.WithValue(ctx, memoryKey{}, m)
}

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
