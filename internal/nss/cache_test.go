package nss

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A user of the machine may come with tens of thousands of numbers that it does not know (/etc/subuid): each is asked for once in a
// while, few of them at a time, and those whom the machine knows do not wait for them.
func TestStrangersAreAskedForSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked, at, most atomic.Int32
		slow := time.Duration(0)
		c := NewCache(func(_ context.Context, uid uint32) (string, error) {
			if uid == 1000 {
				return "alice", nil
			}
			asked.Add(1)
			most.Store(max(most.Load(), at.Add(1)))
			time.Sleep(slow)
			at.Add(-1)
			return "", UnknownError{uid}
		})
		for range 100 {
			if _, _, err := c.Of(t.Context(), 7); !errors.Is(err, UnknownError{7}) {
				t.Fatal(err)
			}
		}
		if asked.Load() != 1 {
			t.Errorf("a stranger was asked for %d times", asked.Load())
		}
		if name, now, err := c.Of(t.Context(), 1000); name != "alice" || !now || err != nil {
			t.Errorf("%q, %t, %v", name, now, err)
		}
		time.Sleep(Fresh)
		slow = time.Second
		var all sync.WaitGroup
		for uid := range uint32(100) {
			all.Go(func() { _, _, _ = c.Of(t.Context(), 100_000+uid) })
		}
		synctest.Wait()
		begun := time.Now()
		if name, now, err := c.Of(t.Context(), 1000); name != "alice" || !now || err != nil || time.Since(begun) > 0 {
			t.Errorf("%q, %t, %v after %v", name, now, err, time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, _, err := c.Of(ctx, 7); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who does not wait: %v", err)
		}
		all.Wait()
		time.Sleep(time.Minute) // who did not wait has asked all the same
		if most.Load() > maxStrangers {
			t.Errorf("%d strangers were asked for at a time", most.Load())
		}
	})
}

func TestStrangersTakeNoPlaces(t *testing.T) {
	c := NewCache(func(_ context.Context, uid uint32) (string, error) {
		if uid == 1000 {
			return "alice", nil
		}
		return "", UnknownError{uid}
	})
	if _, _, err := c.Of(t.Context(), 1000); err != nil {
		t.Fatal(err)
	}
	for uid := range uint32(2 * maxKnown) {
		_, _, _ = c.Of(t.Context(), 100_000+uid)
	}
	if len(c.known) > maxKnown {
		t.Errorf("%d are remembered", len(c.known))
	}
	if _, now, err := c.Of(t.Context(), 1000); now || err != nil {
		t.Errorf("alice is forgotten: %t, %v", now, err)
	}
}
