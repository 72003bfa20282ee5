package server

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestWhoHoldsLeastIsNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShares(limits{total: 4, reserve: 1, user: 3, peer: 4, queue: 3, wait: time.Minute})
		taken := map[string][]func(){}
		var order []string
		var mu sync.Mutex
		ask := func(name string) {
			go func() {
				release, ok := s.take(t.Context(), client{name: name, admin: name == "admin"})
				mu.Lock()
				defer mu.Unlock()
				if !ok {
					order = append(order, name+" refused")
					return
				}
				order = append(order, name)
				taken[name] = append(taken[name], release)
			}()
			synctest.Wait()
		}
		leave := func(name string) {
			release := taken[name][0]
			taken[name] = taken[name][1:]
			release()
			release() // again does nothing
			synctest.Wait()
		}
		for _, name := range []string{"greedy", "greedy", "greedy", "greedy", "greedy", "greedy", "greedy", "b", "b", "c", "admin"} {
			ask(name)
		}
		// Three for greedy, three of its requests wait, and the seventh does not even that. b has the last place; the
		// administrator does not wait behind all those.
		want := []string{"greedy", "greedy", "greedy", "greedy refused", "b", "admin"}
		if !slices.Equal(order, want) {
			t.Fatalf("%v, want %v", order, want)
		}
		leave("greedy")
		leave("greedy")
		leave("b")
		if want = append(want, "c", "greedy", "b"); !slices.Equal(order, want) {
			t.Fatalf("%v, want %v", order, want)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if want = append(want, "greedy refused", "greedy refused"); !slices.Equal(order, want) {
			t.Fatalf("%v, want %v", order, want)
		}
		for _, all := range taken {
			for _, release := range all {
				release()
			}
		}
		if held, waiting, refused := s.figures(); held != 0 || waiting != 0 || refused != 3 || len(s.users)+len(s.peers) != 0 {
			t.Errorf("%d are held, %d wait, %d refused; it keeps %v %v", held, waiting, refused, s.users, s.peers)
		}
	})
}

// TestSharesHold has clients come, wait, give up and leave at random.
func TestSharesHold(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			l := limits{
				total: rapid.IntRange(1, 6).Draw(rt, "total"), reserve: rapid.IntRange(0, 2).Draw(rt, "reserve"),
				user: rapid.IntRange(1, 4).Draw(rt, "user"), peer: rapid.IntRange(1, 4).Draw(rt, "peer"),
				queue: rapid.IntRange(0, 3).Draw(rt, "queue"), wait: time.Duration(rapid.IntRange(0, 5).Draw(rt, "wait")) * time.Second,
			}
			s := newShares(l)
			type request struct {
				client
				cancel  context.CancelFunc
				release func()
				ended   bool
			}
			var all []*request
			for step := range rapid.IntRange(1, 60).Draw(rt, "steps") {
				switch rapid.IntRange(0, 4).Draw(rt, fmt.Sprint("step", step)) {
				case 0, 1, 2:
					n := rapid.IntRange(0, 3).Draw(rt, "user")
					ctx, cancel := context.WithCancel(t.Context())
					r := &request{cancel: cancel, client: client{
						name: fmt.Sprint("u", n), peer: rapid.SampledFrom([]string{"", "p", "q"}).Draw(rt, "peer"), admin: n == 0,
					}}
					all = append(all, r)
					go func() {
						release, ok := s.take(ctx, r.client)
						r.release, r.ended = release, !ok
					}()
				case 3:
					if len(all) > 0 {
						r := rapid.SampledFrom(all).Draw(rt, "leaves")
						r.cancel()
						if r.release != nil {
							r.ended = true
							r.release()
						}
					}
				case 4:
					time.Sleep(time.Second)
				}
				synctest.Wait()

				users, peers, ordinary, admins := map[string]int{}, map[string]int{}, 0, 0
				for _, r := range all {
					switch {
					case r.ended || r.release == nil:
						continue
					case r.admin:
						admins++
					default:
						ordinary++
						users[r.name]++
						peers[r.peer]++
					}
					if users[r.name] > l.user || r.peer != "" && peers[r.peer] > l.peer+admins {
						rt.Fatalf("%+v holds more than its share", r.client)
					}
				}
				if ordinary > l.total || admins > l.total || ordinary+admins > l.total+l.reserve {
					rt.Fatalf("%d and %d of the administrator are held", ordinary, admins)
				}
				for _, w := range s.waiting {
					if s.free(w) {
						rt.Fatalf("%+v waits though there is a place", w.client)
					}
				}
			}
			for _, r := range all {
				r.cancel()
			}
			synctest.Wait()
			for _, r := range all {
				if r.release != nil {
					r.release()
				}
			}
			if held, waiting, _ := s.figures(); held != 0 || waiting != 0 || len(s.users)+len(s.peers) != 0 {
				rt.Fatalf("%d are held, %d wait, and it keeps %v %v", held, waiting, s.users, s.peers)
			}
		})
	})
}
