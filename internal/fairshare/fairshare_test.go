package fairshare

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
		s := New(Limits{Total: 4, Reserve: 1, User: 3, Peer: 4, Queue: 3, QueueAll: 10, Wait: time.Minute})
		taken := map[string][]func(){}
		var order []string
		var mu sync.Mutex
		ask := func(name string) {
			go func() {
				release, ok := s.Take(t.Context(), Client{Name: name, Admin: name == "admin"})
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
			mu.Lock()
			release := taken[name][0]
			taken[name] = taken[name][1:]
			mu.Unlock()
			release()
			release() // again does nothing
			synctest.Wait()
		}
		for _, name := range []string{"greedy", "greedy", "greedy", "greedy", "greedy", "greedy", "greedy", "b", "b", "c", "admin"} {
			ask(name)
		}
		// Three for greedy, three of its requests wait, and the seventh does not even that. b has the last place; the
		// administrator does not wait behind all those.
		var want []string
		expect := func(more ...string) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if want = append(want, more...); !slices.Equal(order, want) {
				t.Fatalf("%v, want %v", order, want)
			}
		}
		expect("greedy", "greedy", "greedy", "greedy refused", "b", "admin")
		leave("greedy")
		leave("greedy")
		leave("b")
		expect("c", "greedy", "b")
		time.Sleep(time.Minute)
		synctest.Wait()
		expect("greedy refused", "greedy refused")
		for _, all := range taken {
			for _, release := range all {
				release()
			}
		}
		if held, waiting, refused := s.Figures(); held != 0 || waiting != 0 || refused != 3 || len(s.users)+len(s.peers) != 0 {
			t.Errorf("%d are held, %d wait, %d refused; it keeps %v %v", held, waiting, refused, s.users, s.peers)
		}
	})
}

// Places that are held as long as a client wants are never all taken by the few that came first.
func TestWhatIsNotWaitedForIsNotUsedUp(t *testing.T) {
	s := New(Limits{Total: 60, Reserve: 1, User: 30})
	for i, want := range []int{30, 15, 8, 4, 2, 1} {
		held := 0
		for {
			if _, ok := s.Take(t.Context(), Client{Name: fmt.Sprint("client ", i)}); !ok {
				break
			}
			held++
		}
		if held != want {
			t.Errorf("client %d got %d places, want %d", i, held, want)
		}
	}
}

// TestAFullQueueIsShared lets one user fill the queue that all share.
func TestAFullQueueIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{Total: 1, User: 1, Queue: 10, QueueAll: 4, Wait: time.Minute})
		given, refused := map[string]int{}, map[string]int{}
		var mu sync.Mutex
		for _, name := range []string{"greedy", "greedy", "greedy", "greedy", "greedy", "b", "greedy", "b", "b", "c"} {
			go func() {
				release, ok := p.Take(t.Context(), Client{Name: name})
				mu.Lock()
				defer mu.Unlock()
				if !ok {
					refused[name]++
					return
				}
				given[name]++
				time.AfterFunc(time.Second, release)
			}()
			synctest.Wait()
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		// Of the four that wait in the end, two are of one user and one is of each of the others.
		if given["greedy"]+given["b"]+given["c"] != 5 || given["c"] != 1 || given["b"] == 0 || given["greedy"] < 2 {
			t.Errorf("given %v, refused %v", given, refused)
		}
	})
}

// TestOneThatLeavesMakesRoomForTwo has a request end whose user and whose peer others were waiting for.
func TestOneThatLeavesMakesRoomForTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{Total: 9, User: 1, Peer: 1, Queue: 1, QueueAll: 2, Wait: time.Minute})
		release, _ := p.Take(t.Context(), Client{Name: "a", Peer: "p"})
		for _, c := range []Client{{Name: "a", Peer: "q"}, {Name: "b", Peer: "p"}} {
			go p.Take(t.Context(), c)
		}
		synctest.Wait()
		release()
		synctest.Wait()
		if held, waiting, refused := p.Figures(); held != 2 || waiting != 0 || refused != 0 {
			t.Errorf("%d are held, %d wait, %d were refused", held, waiting, refused)
		}
	})
}

// TestSharesHold has clients come, wait, give up and leave at random.
func TestSharesHold(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var failed string // said outside of the bubble, which rapid cannot end
		synctest.Test(t, func(t *testing.T) {
			fail := func(format string, args ...any) { failed = fmt.Sprintf(format, args...) }
			l := Limits{
				Total: rapid.IntRange(1, 6).Draw(rt, "total"), Reserve: rapid.IntRange(0, 2).Draw(rt, "reserve"),
				User: rapid.IntRange(1, 4).Draw(rt, "user"), Peer: rapid.IntRange(1, 4).Draw(rt, "peer"),
				Queue: rapid.IntRange(0, 3).Draw(rt, "queue"), QueueAll: rapid.IntRange(0, 6).Draw(rt, "all"),
				Wait: time.Duration(rapid.IntRange(0, 5).Draw(rt, "wait")) * time.Second,
			}
			s := New(l)
			type request struct {
				Client
				cancel  context.CancelFunc
				release func()
				ended   bool
			}
			var all []*request
			var mu sync.Mutex // of what the requests have got
			for step := range rapid.IntRange(1, 60).Draw(rt, "steps") {
				switch rapid.IntRange(0, 4).Draw(rt, fmt.Sprint("step", step)) {
				case 0, 1, 2:
					n := rapid.IntRange(0, 3).Draw(rt, "user")
					ctx, cancel := context.WithCancel(t.Context())
					r := &request{cancel: cancel, Client: Client{
						Name: fmt.Sprint("u", n), Peer: rapid.SampledFrom([]string{"", "p", "q"}).Draw(rt, "peer"), Admin: n == 0,
					}}
					all = append(all, r)
					go func() {
						release, ok := s.Take(ctx, r.Client)
						mu.Lock()
						defer mu.Unlock()
						if r.ended = !ok; ok {
							r.release = release
						}
					}()
				case 3:
					if len(all) > 0 {
						r := rapid.SampledFrom(all).Draw(rt, "leaves")
						r.cancel()
						mu.Lock()
						if r.release != nil {
							r.ended = true
							r.release()
						}
						mu.Unlock()
					}
				case 4:
					time.Sleep(time.Second)
				}
				synctest.Wait()

				mu.Lock()
				s.mu.Lock()
				users, peers, ordinary, admins := map[string]int{}, map[string]int{}, 0, 0
				for _, r := range all {
					switch {
					case r.ended || r.release == nil:
						continue
					case r.Admin:
						admins++
					default:
						ordinary++
						users[r.Name]++
						peers[r.Peer]++
					}
					if users[r.Name] > l.User || r.Peer != "" && peers[r.Peer] > l.Peer+admins {
						fail("%+v holds more than its share", r.Client)
					}
				}
				if ordinary > l.Total || admins > l.Total || ordinary+admins > l.Total+l.Reserve {
					fail("%d and %d of the administrator are held", ordinary, admins)
				}
				if len(s.waiting) > l.QueueAll {
					fail("%d wait", len(s.waiting))
				}
				for _, w := range s.waiting {
					if s.free(w) {
						fail("%+v waits though there is a place", w.Client)
					}
				}
				s.mu.Unlock()
				mu.Unlock()
			}
			for _, r := range all {
				r.cancel()
			}
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			for _, r := range all {
				if r.release != nil {
					r.release()
				}
			}
			if held, waiting, _ := s.Figures(); held != 0 || waiting != 0 || len(s.users)+len(s.peers) != 0 {
				fail("%d are held, %d wait, and it keeps %v %v", held, waiting, s.users, s.peers)
			}
		})
		if failed != "" {
			rt.Fatal(failed)
		}
	})
}
