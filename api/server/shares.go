package server

import (
	"context"
	"slices"
	"sync"
	"time"
)

// client is who asks, for the purpose of sharing.
type client struct {
	// name is that of the user with whose credentials the client has come, whoever it acts as.
	name string
	// peer is where it comes from, if that tells clients of the same name apart; else it is empty.
	peer string
	// admin is the administrator, who has places of his own.
	admin bool
}

// limits bound how many requests of one kind are served at a time. None of those that a client may hold is so large
// that nothing is left for others.
type limits struct {
	total   int // of all clients but the administrator
	reserve int // beyond that, for the administrator alone, who may hold total
	user    int // of one user
	peer    int // of one peer
	queue   int // that wait, of one user
	wait    time.Duration
}

// shares hands out places for requests. A client that is not given one waits a while, and whoever holds least is given
// the next.
type shares struct {
	limits

	mu       sync.Mutex
	ordinary int // places that are held by clients other than the administrator
	admins   int // places that the administrator holds
	users    map[string]*holder
	peers    map[string]*holder
	waiting  []*waiter // in the order in which they came
	refused  uint64
}

// holder is a user or a peer that holds places or waits for some.
type holder struct{ held, waiting int }

type waiter struct {
	client
	user, peer *holder
	given      chan struct{} // closed when it has its place
}

func newShares(l limits) *shares {
	return &shares{limits: l, users: map[string]*holder{}, peers: map[string]*holder{}}
}

// take waits for a place until ctx ends, but not longer than is allowed. Without a place ok is false, else release has to
// be called once the request has ended.
func (s *shares) take(ctx context.Context, c client) (release func(), ok bool) {
	s.mu.Lock()
	w := &waiter{client: c, user: holderOf(s.users, c.name), peer: holderOf(s.peers, c.peer)}
	release = sync.OnceFunc(func() { s.giveBack(w) })
	if s.free(w) {
		s.give(w)
		s.mu.Unlock()
		return release, true
	}
	if s.wait <= 0 || w.user.waiting >= s.queue {
		s.refuse(w)
		s.mu.Unlock()
		return nil, false
	}
	w.given = make(chan struct{})
	w.user.waiting++
	w.peer.waiting++
	s.waiting = append(s.waiting, w)
	s.mu.Unlock()

	late := time.NewTimer(s.wait)
	defer late.Stop()
	select {
	case <-w.given:
		return release, true
	case <-late.C:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(s.waiting, w)
	if at < 0 {
		return release, true // it was given one just now
	}
	s.stopWaiting(at)
	s.refuse(w)
	return nil, false
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
func (s *shares) free(w *waiter) bool {
	if w.admin {
		return s.admins < s.total && s.ordinary+s.admins < s.total+s.reserve
	}
	return s.ordinary < s.total && s.ordinary+s.admins < s.total+s.reserve &&
		w.user.held < s.user && (w.client.peer == "" || w.peer.held < s.limits.peer)
}

func (s *shares) give(w *waiter) {
	if w.admin {
		s.admins++
	} else {
		s.ordinary++
	}
	w.user.held++
	w.peer.held++
}

// giveBack makes place for that one of those who wait whose user holds least.
func (s *shares) giveBack(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.admin {
		s.admins--
	} else {
		s.ordinary--
	}
	w.user.held--
	w.peer.held--
	s.forget(w)
	next := -1
	for i, other := range s.waiting {
		if s.free(other) && (next < 0 || other.user.held < s.waiting[next].user.held) {
			next = i
		}
	}
	if next >= 0 {
		chosen := s.waiting[next]
		s.stopWaiting(next)
		s.give(chosen)
		close(chosen.given)
	}
}

func (s *shares) stopWaiting(at int) {
	w := s.waiting[at]
	w.user.waiting--
	w.peer.waiting--
	s.waiting = slices.Delete(s.waiting, at, at+1)
}

func (s *shares) refuse(w *waiter) {
	s.refused++
	s.forget(w)
}

// forget keeps nothing of a client that holds nothing and waits for nothing.
func (s *shares) forget(w *waiter) {
	if *w.user == (holder{}) {
		delete(s.users, w.name)
	}
	if *w.peer == (holder{}) {
		delete(s.peers, w.client.peer)
	}
}

// figures returns how many places are held, how many clients wait for one, and how many were refused one.
func (s *shares) figures() (held, waiting int, refused uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ordinary + s.admins, len(s.waiting), s.refused
}
