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
// no more than the user's share: a long answer is complete, and two of them cannot wait for each other for ever. Made by
// NewBytes; all methods may be called from any goroutine.
type Bytes struct {
	BytesLimits

	mu      sync.Mutex
	held    int
	users   map[string]*byteHolder
	changed chan struct{} // closed when somebody has given back some
	refused uint64
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
}

// NewBytes returns bytes that nobody holds.
func NewBytes(l BytesLimits) *Bytes {
	return &Bytes{BytesLimits: l, users: map[string]*byteHolder{}, changed: make(chan struct{})}
}

// Request begins a request of a client that holds nothing yet. Release ends it.
func (b *Bytes) Request(c Client) *HeldBytes { return &HeldBytes{of: b, client: c} }

// Grow adds to what a request holds. It waits for others to give back theirs until ctx ends, but not longer than is allowed,
// and reports whether the request may go on.
func (h *HeldBytes) Grow(ctx context.Context, n int) bool {
	b := h.of
	var late <-chan time.Time
	for {
		b.mu.Lock()
		if h.grow(n) {
			b.mu.Unlock()
			return true
		}
		changed := b.changed
		b.mu.Unlock()
		if late == nil {
			timer := time.NewTimer(b.Wait)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-changed:
			continue
		case <-ctx.Done():
		case <-late:
		}
		b.mu.Lock()
		b.refused++
		b.mu.Unlock()
		return false
	}
}

// grow adds n if there is room for them.
func (h *HeldBytes) grow(n int) bool {
	b := h.of
	user := b.users[h.client.Name]
	if user == nil {
		user = &byteHolder{}
	}
	first := len(user.requests) == 0 || user.requests[0] == h
	if over := user.held + n - b.User; over > 0 {
		if !first {
			return false
		}
		n = max(0, n-over)
	}
	total := b.Total
	if h.client.Admin {
		total += b.Reserve
	}
	if b.held+n > total {
		return false
	}
	if !slices.Contains(user.requests, h) {
		user.requests = append(user.requests, h)
	}
	b.users[h.client.Name] = user
	user.held += n
	b.held += n
	h.held += n
	return true
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
	h.held = 0
	if len(user.requests) == 0 {
		delete(b.users, h.client.Name)
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

// Held returns how many bytes are held, of those that count, and how often a request was refused.
func (b *Bytes) Held() (held int, refused uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held, b.refused
}
