package loop_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/metrics"
	"github.com/jobd/jobd/store"
)

// worker works on all objects in turn, and fails on some.
type worker struct {
	loop.Base
	on   []string
	fail func(p *loop.Pass, key string) error
	done *[]string // keys, in all passes that were written
}

func (w *worker) Rebuild(s *store.Snapshot, _ time.Time) error {
	w.on = nil
	s.Range("a/", "", func(o store.Object) bool { w.on = append(w.on, o.Key); return true })
	return nil
}

func (w *worker) Dirty() bool { return len(w.on) > 0 }

func (w *worker) Settle(p *loop.Pass) (bool, error) {
	if len(w.on) == 0 {
		return false, nil
	}
	key := w.on[0]
	w.on = w.on[1:]
	if !p.Works(key) {
		return true, nil
	}
	if err := w.fail(p, key); err != nil {
		return false, err
	}
	p.After(func() { *w.done = append(*w.done, key) })
	return true, nil
}

// One object for which nothing can be written does not stop the others.
func TestAnObjectThatCannotBeWrittenIsSetAside(t *testing.T) {
	bad := func(key string, fail func(p *loop.Pass) error) func(*loop.Pass, string) error {
		return func(p *loop.Pass, is string) error {
			if is == key {
				return fail(p)
			}
			return nil
		}
	}
	tooLong := func(p *loop.Pass) error { p.PutStored(store.Object{Key: strings.Repeat("k", 5000)}); return nil }
	for name, tc := range map[string]struct {
		fail func(*loop.Pass, string) error
		want []string // that is set aside
	}{
		"an error":              {bad("a/5", func(*loop.Pass) error { return errors.New("no") }), []string{"a/5"}},
		"a key that is none":    {bad("a/5", tooLong), []string{"a/5"}},
		"the last of all":       {bad("a/9", tooLong), []string{"a/9"}},
		"the disk":              {bad("a/5", func(*loop.Pass) error { return fmt.Errorf("write: %w", syscall.EIO) }), nil},
		"a full disk":           {bad("a/5", func(*loop.Pass) error { return store.ErrFull }), nil},
		"every object there is": {func(*loop.Pass, string) error { return errors.New("no") }, []string{"a/0", "a/1", "a/2"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := store.Open(t.TempDir()+"/jobd.db", store.Options{NoSync: true})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				if err := s.Update(t.Context(), func(tx *store.Tx) error {
					for i := range 10 {
						tx.Put(store.Object{Key: fmt.Sprint("a/", i), UID: fmt.Sprint("uid-", i)})
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				list, err := aside.Open(t.TempDir()+"/aside.json", "v1")
				if err != nil {
					t.Fatal(err)
				}
				var done []string
				l := loop.New(loop.Config{
					Store: s, Inbox: loop.NewInbox(), Events: events.New("test"), Metrics: metrics.New(s), Aside: list,
					Logger: slog.New(slog.DiscardHandler),
					Controllers: func(*loop.Timers, *loop.Followers) []loop.Controller {
						return []loop.Controller{&worker{fail: tc.fail, done: &done}}
					},
				})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- l.Run(ctx) }()
				time.Sleep(time.Minute)
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				var got []string
				for _, e := range list.Entries() {
					got = append(got, e.Key)
				}
				if !slices.Equal(got, tc.want) {
					t.Errorf("%v are set aside, want %v", got, tc.want)
				}
				if slices.Sort(done); len(tc.want) == 1 && len(slices.Compact(done)) != 9 {
					t.Errorf("it was at work on %v", done)
				}
			})
		})
	}
}
