// Package fairshare divides places among clients, so that none takes those of others: for requests to the API, queries to the
// name server, and the creation of volumes. It knows of clients no more than their names, touches nothing, and keeps nothing
// of a client that holds no place.
package fairshare

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Client is who asks for a place.
type Client struct {
	// Name is that of the user, whoever it acts as.
	Name string
	// Peer is where it comes from, if that tells clients of the same name apart; else it is empty.
	Peer string
	// Admin says that it is the administrator, who has places of his own.
	Admin bool
}

// Limits bound how many places are held at a time.
type Limits struct {
	Total   int // of all clients except the administrator
	Reserve int // beyond that, for the administrator alone, who may hold Total
	User    int // of one user
	Peer    int // of one peer; 0 if clients have none
	// Queue is how many requests of one user may wait for a place, QueueAll those of all users, and Wait how long. Without
	// Wait none does.
	Queue, QueueAll int
	Wait            time.Duration
}

// Places are handed out one by one. A request that is not given one waits a while, and whoever holds least is given
// the next. Made by New; all methods may be called from any goroutine.
type Places struct {
	Limits

	mu       sync.Mutex
	ordinary int // that are held by clients other than the administrator
	admins   int // that the administrator holds
	users    map[string]*holder
	peers    map[string]*holder
	waiting  []*waiter // in the order in which they came
	refused  uint64
}

// holder is a user or a peer that holds places or waits for some.
type holder struct{ held, waiting int }

// waiter is a request that holds a place or waits for one.
type waiter struct {
	Client
	user, peer *holder
	given      chan bool // gets whether it has its place, once it does not wait any more
}

// New returns places that nobody holds.
func New(l Limits) *Places {
	return &Places{Limits: l, users: map[string]*holder{}, peers: map[string]*holder{}}
}

// Take waits for a place until ctx ends, but not longer than is allowed. Without a place ok is false, else release has to
// be called once the request has ended.
func (p *Places) Take(ctx context.Context, c Client) (release func(), ok bool) {
	p.mu.Lock()
	w := &waiter{Client: c, user: holderOf(p.users, c.Name), peer: holderOf(p.peers, c.Peer)}
	release = sync.OnceFunc(func() { p.giveBack(w) })
	if p.free(w) {
		p.give(w)
		p.mu.Unlock()
		return release, true
	}
	if p.Wait <= 0 || w.user.waiting >= p.Queue {
		p.refuse(w)
		p.mu.Unlock()
		return nil, false
	}
	w.given = make(chan bool, 1)
	w.user.waiting++
	w.peer.waiting++
	p.waiting = append(p.waiting, w)
	if len(p.waiting) > p.QueueAll {
		p.thin()
	}
	p.mu.Unlock()

	late := time.NewTimer(p.Wait)
	defer late.Stop()
	select {
	case ok := <-w.given:
		return release, ok
	case <-late.C:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.Index(p.waiting, w)
	if at < 0 {
		return release, <-w.given // it was decided just now
	}
	p.stopWaiting(at)
	p.refuse(w)
	return nil, false
}

// thin takes one from the queue: the last one of the user who has most in it.
func (p *Places) thin() {
	last := 0
	for i, w := range p.waiting {
		if w.user.waiting >= p.waiting[last].user.waiting {
			last = i
		}
	}
	out := p.waiting[last]
	p.stopWaiting(last)
	p.refuse(out)
	out.given <- false
}

func holderOf(all map[string]*holder, name string) *holder {
	h := all[name]
	if h == nil {
		h = &holder{}
		all[name] = h
	}
	return h
}

// free reports whether there is a place for a client.
func (p *Places) free(w *waiter) bool {
	if w.Admin {
		return p.admins < p.Total && p.ordinary+p.admins < p.Total+p.Reserve
	}
	if p.ordinary >= p.Total || p.ordinary+p.admins >= p.Total+p.Reserve {
		return false
	}
	// Without a queue a user may hold no more places than are still free. So something is left for the next user, however
	// many have come at the same time.
	if p.Wait <= 0 && w.user.held > 0 && w.user.held >= p.Total-p.ordinary {
		return false
	}
	return w.user.held < p.User && (w.Client.Peer == "" || w.peer.held < p.Limits.Peer)
}

func (p *Places) give(w *waiter) {
	if w.Admin {
		p.admins++
	} else {
		p.ordinary++
	}
	w.user.held++
	w.peer.held++
}

// giveBack releases a place. A waiter that was at the limit of the same user may have it now, or one that was at the limit of
// the same peer: each free place goes to the waiter whose user holds least.
func (p *Places) giveBack(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.Admin {
		p.admins--
	} else {
		p.ordinary--
	}
	w.user.held--
	w.peer.held--
	p.forget(w)
	for {
		next := -1
		for i, other := range p.waiting {
			if p.free(other) && (next < 0 || other.user.held < p.waiting[next].user.held) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		chosen := p.waiting[next]
		p.stopWaiting(next)
		p.give(chosen)
		chosen.given <- true
	}
}

func (p *Places) stopWaiting(at int) {
	w := p.waiting[at]
	w.user.waiting--
	w.peer.waiting--
	p.waiting = slices.Delete(p.waiting, at, at+1)
}

func (p *Places) refuse(w *waiter) {
	p.refused++
	p.forget(w)
}

// forget drops what is known of a client that holds nothing and waits for nothing.
func (p *Places) forget(w *waiter) {
	if *w.user == (holder{}) {
		delete(p.users, w.Name)
	}
	if *w.peer == (holder{}) {
		delete(p.peers, w.Client.Peer)
	}
}

// Figures returns how many places are held, how many clients wait for one, and how many were refused one.
func (p *Places) Figures() (held, waiting int, refused uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ordinary + p.admins, len(p.waiting), p.refused
}
