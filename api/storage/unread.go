package storage

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// Unread counts the events of one watch that are not small, from before they are read from the store until its client has taken
// them. The zero value counts nothing.
type Unread struct {
	// take waits until so many bytes more may be held; release gives them back.
	take func(ctx context.Context, n int) (release func(), ok bool)

	mu sync.Mutex
	// next is what is held for an event that is not sent yet, and sent for those that are.
	next    func()
	sent    []func()
	results chan watch.Event
	ended   bool
}

type unreadKey struct{}

// WithUnread makes a watch count its events by take. Whoever serves the watch then says when they are Written, and when it has
// ended (End).
func WithUnread(ctx context.Context, take func(ctx context.Context, n int) (release func(), ok bool)) (context.Context, *Unread) {
	u := &Unread{take: take}
	return context.WithValue(ctx, unreadKey{}, u), u
}

func unreadOf(ctx context.Context) *Unread {
	if u, ok := ctx.Value(unreadKey{}).(*Unread); ok {
		return u
	}
	return &Unread{}
}

// hold waits until an event of so many bytes may be held.
func (u *Unread) hold(ctx context.Context, n int) error {
	u.forget()
	if u.take == nil {
		return nil
	}
	release, ok := u.take(ctx, n)
	if !ok {
		if err := ctx.Err(); err != nil {
			return err
		}
		return apierrors.NewTooManyRequests("watches of this client, or of all clients together, hold as many events as they may "+
			"that nobody reads: read them, or watch less", 1)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended {
		release()
		return context.Canceled
	}
	u.next = release
	return nil
}

// forget gives back what is held for an event that is not sent.
func (u *Unread) forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.next != nil {
		u.next()
		u.next = nil
	}
}

// send sends the event that is held. No other waits by then, so that there is room for it.
func (u *Unread) send(ctx context.Context, results chan watch.Event, e watch.Event) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	select {
	case results <- e:
	case <-ctx.Done():
		return ctx.Err()
	}
	u.results = results
	if u.next != nil {
		u.sent = append(u.sent, u.next)
		u.next = nil
	}
	return nil
}

// Written says that all events are written to the client that were taken from the watch. It is called by what takes them.
func (u *Unread) Written() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.results) == 0 {
		u.releaseSent()
	}
}

// End gives back everything.
func (u *Unread) End() {
	u.forget()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended = true
	u.releaseSent()
}

func (u *Unread) releaseSent() {
	for _, release := range u.sent {
		release()
	}
	u.sent = nil
}
