package storage

import (
	"context"
	"strconv"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// maxPageBytes is how many bytes of objects are enough for a page of a list. The limit of a request is an upper bound, and a page of
	// 500 objects could have 1.5 GB.
	maxPageBytes = 4 << 20
	// maxListBytes is how much memory a list may take that has no limit: some fifty thousand pods of the usual kind.
	maxListBytes = 512 << 20
	// wholeFactor is how much more an answer takes, for each byte of its objects, that is made as a whole before it is sent: as JSON, in
	// buffers that double, and then again as YAML or with indents. It was 9 to 20 for texts that JSON escapes, and 10 in YAML for lists.
	wholeFactor = 12
	// maxGuess is for how many objects of a page memory is taken before they are read.
	maxGuess = 500
	// smallObject is the size as it is stored up to which a single event is not worth counting, and lightObject an object.
	smallObject, lightObject = 64 << 10, 16 << 10
	// updateFactor is how much memory an update takes, for each byte of its object: for the value as it is and as it will be,
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

// WithMemory makes reads of a request count in m the objects that they return (sizeOf). Whoever calls this knows
// when the request has ended.
func WithMemory(ctx context.Context, m Memory) context.Context {
	return context.WithValue(ctx, memoryKey{}, m)
}

// Part makes reads count what they hold as a part of what the request holds, which is given back by release.
func Part(ctx context.Context) (_ context.Context, release func()) {
	m, ok := ctx.Value(memoryKey{}).(Memory)
	if !ok {
		return ctx, func() {}
	}
	p := &part{Memory: m}
	return WithMemory(ctx, p), func() { m.Shrink(int(p.held.Swap(0))) }
}

type part struct {
	Memory
	held atomic.Int64
}

func (p *part) Grow(ctx context.Context, n int) bool {
	ok := p.Memory.Grow(ctx, n)
	if ok {
		p.held.Add(int64(n))
	}
	return ok
}

func (p *part) Shrink(n int) {
	p.held.Add(int64(-n))
	p.Memory.Shrink(n)
}

type (
	updatingKey struct{}
	passingKey  struct{}
	wholeKey    struct{}
)

// Updating makes reads count as much as an update takes: one that is only tried (dryRun) reads, and writes nothing.
func Updating(ctx context.Context) context.Context {
	return context.WithValue(ctx, updatingKey{}, true)
}

// Passing makes single objects count only while something is done with them, for a request that keeps none of them.
func Passing(ctx context.Context) context.Context { return context.WithValue(ctx, passingKey{}, true) }

// Whole makes reads count as much as an answer takes that is not sent as it is made.
func Whole(ctx context.Context) context.Context { return context.WithValue(ctx, wholeKey{}, true) }

// wholeFactorOf returns how often the bytes of objects are counted for the answer to a request.
func wholeFactorOf(ctx context.Context) int {
	if ctx.Value(wholeKey{}) == nil {
		return 0
	}
	return wholeFactor
}

// isRequest reports whether somebody counts what is held.
func isRequest(ctx context.Context) bool {
	_, ok := ctx.Value(memoryKey{}).(Memory)
	return ok
}

// tooLargeList says what to ask for instead of a list that takes too much memory.
func tooLargeList(ctx context.Context) error {
	hint := ""
	if wholeFactorOf(ctx) > 0 {
		hint = ", or for compact JSON (application/json, pretty=false), which is sent object by object"
	}
	return apierrors.NewRequestEntityTooLargeError("the list would take more than " + strconv.Itoa(maxListBytes>>20) +
		" MiB of memory: ask for it in pages (limit)" + hint)
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

// holding is what is counted for one object while something is done with it that takes factor times as much memory, of which the
// answer takes a part.
type holding struct {
	ctx            context.Context
	factor, answer int
	bytes          int
	began          func()
}

// hold begins something that takes factor times as much memory as its object.
func hold(ctx context.Context, factor int) *holding {
	whole := wholeFactorOf(ctx)
	return &holding{ctx: ctx, factor: factor + whole, answer: 1 + whole}
}

// covers reports whether enough is counted for an object of a size.
func (h *holding) covers(size int) bool { return size <= lightObject || size*h.factor <= h.bytes }

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

// end gives back what is not part of the answer.
func (h *holding) end() {
	if h.began == nil {
		return
	}
	rest := h.bytes
	if h.ctx.Value(passingKey{}) == nil {
		rest -= h.bytes / h.factor * h.answer
	}
	if m, ok := h.ctx.Value(memoryKey{}).(Memory); ok && rest > 0 {
		m.Shrink(rest)
	}
	h.began()
}
