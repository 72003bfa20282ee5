package follow

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jobd/jobd/store"
)

func open(t *testing.T) *store.Store {
	s, err := store.Open(filepath.Join(t.TempDir(), "db"), store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func update(t *testing.T, s *store.Store, fn func(tx *store.Tx)) {
	t.Helper()
	if err := s.Update(context.Background(), func(tx *store.Tx) error { fn(tx); return nil }); err != nil {
		t.Fatal(err)
	}
}

// Whoever follows a prefix knows what is below it, also when it was too slow and changes were cut from the log.
func TestPrefix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		defer s.Close()
		known, busy, complete := map[string]bool{}, make(chan struct{}), 0
		f := Follower{
			Show: func(o store.Object, gone bool) {
				if known[o.Key] = true; gone {
					delete(known, o.Key)
				}
				if o.Key == "a/slow" {
					<-busy
				}
			},
			Shown: func() { complete++ },
			Drop:  func() { clear(known) },
		}
		expect := func(keys string, times int) {
			t.Helper()
			synctest.Wait()
			if got := strings.Join(slices.Sorted(maps.Keys(known)), " "); got != keys || complete != times {
				t.Errorf("knows %s, %d times complete; want %s, %d times", got, complete, keys, times)
			}
		}
		put := func(keys ...string) {
			t.Helper()
			update(t, s, func(tx *store.Tx) {
				for _, key := range keys {
					tx.Put(store.Object{Key: key})
				}
			})
		}
		put("a/before", "b/other")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); Prefix(ctx, s, "a/", f) }()
		expect("a/before", 1)
		put("a/later", "b/other")
		expect("a/before a/later", 1)
		put("a/slow")
		synctest.Wait()
		update(t, s, func(tx *store.Tx) { tx.Delete("a/before"); tx.Delete("a/slow"); tx.Put(store.Object{Key: "a/last"}) })
		if err := s.Cut(t.Context(), s.Version()); err != nil {
			t.Fatal(err)
		}
		close(busy)
		expect("a/last a/later", 2)
		cancel()
		<-ended
	})
}

func TestPrefixOfAClosedStore(t *testing.T) {
	s := open(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	Prefix(t.Context(), s, "a/", Follower{Shown: func() { t.Error("it has shown everything") }})
}

// What is signalled while somebody works, or shortly after, is done together; what has failed is done again, later.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var fails atomic.Bool
		var done []time.Duration
		begin, signal, ended := time.Now(), NewSignal(), make(chan struct{})
		go func() {
			defer close(ended)
			signal.Run(ctx, time.Second, func() bool {
				ok := !fails.Load()
				done = append(done, time.Since(begin))
				return ok
			})
		}()
		expect := func(after time.Duration, want ...time.Duration) {
			t.Helper()
			Sleep(ctx, after)
			synctest.Wait()
			if !slices.Equal(done, want) {
				t.Errorf("done at %v, want %v", done, want)
			}
		}
		expect(time.Second)
		signal.Send()
		expect(0, time.Second)
		signal.Send()
		signal.Send()
		fails.Store(true)
		expect(10*time.Second, time.Second, 2*time.Second, 7*time.Second)
		fails.Store(false)
		expect(time.Minute, time.Second, 2*time.Second, 7*time.Second, 12*time.Second)
		signal.Send()
		cancel()
		<-ended
	})
}
