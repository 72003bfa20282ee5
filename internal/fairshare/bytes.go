package fairshare

import (
	"context"
	"slices"
	"sync"
	"time"
)

// BytesLimits bound how many bytes are held at a time.
type BytesLimits struct {
	Total   int // by all clients except the administrator
	Reserve int // beyond that, for the administrator alone
	User    int // by one user, but for the first of its requests
	Wait    time.Duration
}

// Bytes is memory that requests hold while they are served. It is divided among users like places, but a request may ask
// for more as it goes on. The first of those that a user has at a time gets what it needs, however much that is, and counts as
// no more than the user's share: a long answer is complete, and two of them cannot wait for each other for ever. Who needs little
// may pass who waits for much, but only until as many bytes as there are have passed: then it waits behind. Made by NewBytes; all
// methods may be called from any goroutine.
type Bytes struct {
	BytesLimits

	mu      sync.Mutex
	held    int
	users   map[string]*byteHolder
	waiting []*byteWaiter // in the order in which they came
	refused uint64
}

// byteWaiter is a request that waits for more.
type byteWaiter struct {
	of     *HeldBytes
	more   int
	passed int           // bytes that were given to others who came later
	given  chan struct{} // closed once it has them
}

// byteHolder is a user that holds bytes, with the requests that hold them, in the order in which they began.
type byteHolder struct {
	held     int
	requests []*HeldBytes
}

// HeldBytes are the bytes that one request holds.
type HeldBytes struct {
	of     *Bytes
	client Client
	held   int // of those that count
	beyond int // of those that do not
}

// NewBytes returns bytes that nobody holds.
func NewBytes(l BytesLimits) *Bytes {
	return &Bytes{BytesLimits: l, users: map[string]*byteHolder{}}
}

// Request begins a request of a client that holds nothing yet. Release ends it.
func (b *Bytes) Request(c Client) *HeldBytes { return &HeldBytes{of: b, client: c} }

// Grow adds to what a request holds. It waits for others to give back theirs until ctx ends, but not longer than is allowed,
// and reports whether the request may go on.
func (h *HeldBytes) Grow(ctx context.Context, n int) bool {
	b := h.of
	w := b.ask(h, n)
	if w == nil {
		return true
	}
	late := time.NewTimer(b.Wait)
	defer late.Stop()
	select {
	case <-w.given:
		return true
	case <-ctx.Done():
	case <-late.C:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.Index(b.waiting, w)
	if at < 0 {
		return true // it was given them just now
	}
	b.waiting = slices.Delete(b.waiting, at, at+1)
	b.refused++
	b.wake() // those who could not pass it
	return false
}

// ask gives a request n more, or has it wait for them.
func (b *Bytes) ask(h *HeldBytes, n int) *byteWaiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h.grow(n, b.waiting) {
		return nil
	}
	w := &byteWaiter{of: h, more: n, given: make(chan struct{})}
	b.waiting = append(b.waiting, w)
	return w
}

// grow adds n if there is room for them, and none of those who wait ahead would wait for too long.
func (h *HeldBytes) grow(n int, ahead []*byteWaiter) bool {
	b := h.of
	user := b.users[h.client.Name]
	if user == nil {
		user = &byteHolder{}
	}
	counted := n
	if over := user.held + n - b.User; over > 0 {
		if !user.first(h) {
			return false
		}
		counted = max(0, n-over)
	}
	total := b.Total
	if h.client.Admin {
		total += b.Reserve
	}
	if b.held+counted > total {
		return false
	}
	began := slices.Contains(user.requests, h)
	// Who holds something may pass: the others may wait for what it holds.
	if !began && !h.client.Admin && !h.pass(counted, ahead) {
		return false
	}
	if !began {
		user.requests = append(user.requests, h)
	}
	b.users[h.client.Name] = user
	user.held += counted
	b.held += counted
	h.held += counted
	h.beyond += n - counted
	return true
}

// pass reports whether n bytes may be given to a request before those who wait ahead of it, and counts them if so.
func (h *HeldBytes) pass(n int, ahead []*byteWaiter) bool {
	for _, w := range ahead {
		if w.passed+n > h.of.Total && h.delays(w) {
			return false
		}
	}
	for _, w := range ahead {
		if h.delays(w) {
			w.passed += n
		}
	}
	return true
}

// delays reports whether somebody waits for what a request would be given: not if it waits for others of its own user.
func (h *HeldBytes) delays(w *byteWaiter) bool {
	b := h.of
	user := b.users[w.of.client.Name]
	return h.client.Name == w.of.client.Name || user == nil || user.first(w.of) || user.held+w.more <= b.User
}

// first reports whether a request is the first of those that a user has.
func (u *byteHolder) first(h *HeldBytes) bool { return len(u.requests) == 0 || u.requests[0] == h }

// Shrink gives back n of what a request holds, first of what does not count.
func (h *HeldBytes) Shrink(n int) {
	b := h.of
	b.mu.Lock()
	defer b.mu.Unlock()
	user := b.users[h.client.Name]
	if user == nil {
		return
	}
	free := min(n, h.beyond)
	h.beyond -= free
	counted := min(n-free, h.held)
	user.held -= counted
	b.held -= counted
	h.held -= counted
	b.wake()
}

// Release gives back all that a request holds.
func (h *HeldBytes) Release() {
	b := h.of
	b.mu.Lock()
	defer b.mu.Unlock()
	user := b.users[h.client.Name]
	if user == nil {
		return
	}
	user.requests = slices.DeleteFunc(user.requests, func(other *HeldBytes) bool { return other == h })
	user.held -= h.held
	b.held -= h.held
	h.held, h.beyond = 0, 0
	if len(user.requests) == 0 {
		delete(b.users, h.client.Name)
	}
	b.wake()
}

// wake gives those who wait what they wait for, as far as there is room. The others are left alone: there may be thousands.
func (b *Bytes) wake() {
	left := b.waiting[:0]
	for _, w := range b.waiting {
		if w.of.grow(w.more, left) {
			close(w.given)
		} else {
			left = append(left, w)
		}
	}
	clear(b.waiting[len(left):])
	b.waiting = left
}

// Held returns how many bytes are held, of those that count, and how often a request was refused.
func (b *Bytes) Held() (held int, refused uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held, b.refused
}
