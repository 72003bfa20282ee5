package fairshare

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestBytesAreDividedAmongUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBytes(BytesLimits{Total: 100, Reserve: 50, User: 40, Wait: time.Second})
		at := func(name string) *HeldBytes { return b.Request(Client{Name: name}) }
		grow := func(h *HeldBytes, n int, want bool) {
			t.Helper()
			if got := h.Grow(t.Context(), n); got != want {
				t.Errorf("%d more of %s: %t", n, h.client.Name, got)
			}
		}
		first, second := at("a"), at("a")
		grow(first, 30, true)
		grow(first, 1000, true) // the first of a user gets all that it needs
		grow(second, 1, false)
		grow(at("b"), 40, true)
		grow(at("c"), 40, false)
		grow(at("c"), 20, true)
		grow(b.Request(Client{Name: "root", Admin: true}), 50, true)
		if held, refused := b.Held(); held != 140 || refused != 2 {
			t.Errorf("%d are held, %d refused", held, refused)
		}
		go func() {
			time.Sleep(time.Second / 2)
			first.Release()
			first.Release()
		}()
		grow(second, 1, false) // the administrator holds what was free
		second.Release()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if at("d").Grow(ctx, 1) {
			t.Error("there is room for one more")
		}
	})
}

func TestBytesNeverDeadlock(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := NewBytes(BytesLimits{Total: 100, User: 30})
		var open []*HeldBytes
		for range rapid.IntRange(1, 200).Draw(rt, "steps") {
			switch rapid.IntRange(0, 3).Draw(rt, "what") {
			case 0:
				open = append(open, b.Request(Client{Name: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "user")}))
			case 1:
				if len(open) > 0 {
					i := rapid.IntRange(0, len(open)-1).Draw(rt, "which")
					open[i].Release()
					open = append(open[:i], open[i+1:]...)
				}
			default:
				if len(open) > 0 {
					h := rapid.SampledFrom(open).Draw(rt, "grows")
					b.mu.Lock()
					grew := h.grow(rapid.IntRange(0, 50).Draw(rt, "by"))
					user := b.users[h.client.Name]
					if !grew && (user == nil || user.requests[0] == h) {
						rt.Fatal("the first request of a user is refused, though all users together have room")
					}
					b.mu.Unlock()
				}
			}
			if b.held < 0 || b.held > 90 {
				rt.Fatalf("%d bytes are held", b.held)
			}
			for name, u := range b.users {
				if u.held > b.User {
					rt.Fatalf("%s holds %d", name, u.held)
				}
			}
		}
		for _, h := range open {
			h.Release()
		}
		if b.held != 0 || len(b.users) != 0 {
			rt.Fatalf("%d bytes of %d users are held by nobody", b.held, len(b.users))
		}
	})
}
