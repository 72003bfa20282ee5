package nss

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	// Fresh is for how long what the machine has said of a user is believed.
	Fresh = 10 * time.Second
	// maxKnown bounds how many users are remembered.
	maxKnown = 10_000
	// maxStrangers bounds how many users are asked for at a time that nobody has heard of. A user of the machine may have the numbers
	// of tens of thousands more (/etc/subuid), and each question is a few processes.
	maxStrangers = 4
)

// Cache remembers for some seconds what the machine has said of users, also that it does not know them. Any goroutine may use it; each
// user is asked for once at a time, and for as long as that takes.
type Cache[T any] struct {
	ask func(context.Context, uint32) (T, error)
	// Now is the clock; tests have their own.
	Now func() time.Time

	asking    singleflight.Group
	strangers chan struct{}
	mu        sync.Mutex
	known     map[uint32]answer[T]
}

type answer[T any] struct {
	of    T
	err   error // UnknownError, or nil
	until time.Time
}

// NewCache makes one that asks by a function, which may make more of the answer.
func NewCache[T any](ask func(ctx context.Context, uid uint32) (T, error)) *Cache[T] {
	return &Cache[T]{ask: ask, Now: time.Now, strangers: make(chan struct{}, maxStrangers), known: map[uint32]answer[T]{}}
}

// Of returns what is known of a user, and whether that was found out just now.
func (c *Cache[T]) Of(ctx context.Context, uid uint32) (found T, now bool, err error) {
	c.mu.Lock()
	k, ok := c.known[uid]
	c.mu.Unlock()
	if ok && c.Now().Before(k.until) {
		return k.of, false, k.err
	}
	stranger := !ok || k.err != nil
	// Others wait for the same answer, so it does not end with who has asked first.
	result := c.asking.DoChan(strconv.FormatUint(uint64(uid), 10), func() (any, error) {
		if stranger {
			c.strangers <- struct{}{}
			defer func() { <-c.strangers }()
		}
		of, err := c.ask(context.WithoutCancel(ctx), uid)
		var unknown UnknownError
		if err == nil || errors.As(err, &unknown) {
			c.remember(uid, answer[T]{of, err, c.Now().Add(Fresh)})
		}
		return of, err
	})
	select {
	case <-ctx.Done():
		return found, false, ctx.Err()
	case r := <-result:
		return r.Val.(T), true, r.Err
	}
}

func (c *Cache[T]) remember(uid uint32, a answer[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.known[uid]; !ok && len(c.known) >= maxKnown {
		for other, k := range c.known { // strangers take the place of nobody whom the machine knows
			if k.err != nil {
				delete(c.known, other)
			}
		}
		if len(c.known) >= maxKnown {
			clear(c.known)
		}
	}
	c.known[uid] = a
}
