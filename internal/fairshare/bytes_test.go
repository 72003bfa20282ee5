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
				if len(open) > 0 && rapid.Bool().Draw(rt, "in part") {
					rapid.SampledFrom(open).Draw(rt, "shrinks").Shrink(rapid.IntRange(0, 60).Draw(rt, "by"))
				} else if len(open) > 0 {
					i := rapid.IntRange(0, len(open)-1).Draw(rt, "which")
					open[i].Release()
					open = append(open[:i], open[i+1:]...)
				}
			default:
				if len(open) > 0 {
					h := rapid.SampledFrom(open).Draw(rt, "grows")
					b.mu.Lock()
					grew := h.grow(rapid.IntRange(0, 50).Draw(rt, "by"), nil)
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

// Who waits for much is served in bounded time, however many come after it who need little: at most as many bytes as there are pass
// it, whether it waits for the bytes of all or for those of its own user. Whoever stays behind for that is served too.
func TestWhoNeedsMuchIsServed(t *testing.T) {
	const total, life = 100, 8
	rapid.Check(t, func(rt *rapid.T) {
		b := NewBytes(BytesLimits{Total: total, User: rapid.SampledFrom([]int{60, total}).Draw(rt, "share")})
		type request struct {
			*HeldBytes
			waits *byteWaiter
			until int
		}
		var open []request
		come := func(round int, name string, n int) *byteWaiter {
			h := b.Request(Client{Name: name})
			r := request{h, b.ask(h, n), round + rapid.IntRange(1, life).Draw(rt, "life")}
			open = append(open, r)
			return r.waits
		}
		end := func(round int) {
			var left []request
			for _, r := range open {
				if r.waits != nil {
					select {
					case <-r.waits.given:
						r.waits, r.until = nil, round+life
					default:
					}
				}
				if r.waits == nil && r.until <= round {
					r.Release()
				} else {
					left = append(left, r)
				}
			}
			open = left
		}
		users := []string{"a", "b", "c", "much"}
		for range 10 {
			come(0, rapid.SampledFrom(users).Draw(rt, "user"), rapid.IntRange(1, 20).Draw(rt, "bytes"))
		}
		waits := come(0, "much", rapid.IntRange(40, 150).Draw(rt, "much"))
		ahead := len(b.waiting)
		round := 0
		for served := waits == nil; !served; round++ {
			if round > (ahead+1)*life+total+life {
				rt.Fatalf("it waits for ever: %d are held, %d wait", b.held, len(b.waiting))
			}
			for range rapid.IntRange(1, 4).Draw(rt, "come") {
				come(round, rapid.SampledFrom(users).Draw(rt, "user"), rapid.IntRange(1, 20).Draw(rt, "bytes"))
			}
			end(round)
			select {
			case <-waits.given:
				served = true
			default:
			}
		}
		for last := round + (len(open)+1)*(life+1); len(open) > 0; round++ {
			if end(round); round > last {
				rt.Fatalf("%d wait for nobody", len(b.waiting))
			}
		}
	})
}

// Who has begun goes on before all who wait, as these may wait for it; the administrator does too.
func TestWhoHoldsSomethingPasses(t *testing.T) {
	b := NewBytes(BytesLimits{Total: 100, Reserve: 10, User: 90})
	begun := b.Request(Client{Name: "a"})
	if b.ask(begun, 30) != nil || b.ask(b.Request(Client{Name: "b"}), 90) == nil {
		t.Fatal("100 are not 100")
	}
	for range 9 {
		passes := b.Request(Client{Name: "c"})
		if b.ask(passes, 20) != nil {
			break
		}
		passes.Release()
	}
	if late := b.Request(Client{Name: "c"}); b.ask(late, 20) == nil {
		t.Error("180 passed who waits for 90 of 100")
	}
	if b.ask(begun, 40) != nil {
		t.Error("who holds something waits")
	}
	if b.ask(b.Request(Client{Name: "root", Admin: true}), 40) != nil {
		t.Error("the administrator waits")
	}
}

func TestWhoGivesUpIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBytes(BytesLimits{Total: 100, User: 90, Wait: time.Minute})
		holds := b.Request(Client{Name: "a"})
		holds.Grow(t.Context(), 20)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go b.Request(Client{Name: "b"}).Grow(ctx, 90)
		synctest.Wait()
		for range 5 {
			passes := b.Request(Client{Name: "c"})
			passes.Grow(t.Context(), 20)
			passes.Release()
		}
		began := time.Now()
		if !b.Request(Client{Name: "c"}).Grow(t.Context(), 20) || time.Since(began) != time.Second {
			t.Errorf("waited for %v", time.Since(began))
		}
	})
}
