package loop_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/metrics"
	"github.com/jobd/jobd/store"
)

// slow is a controller whose records take a second to be read. The effects of its first pass take as long.
type slow struct {
	loop.Base
	rebuilt, passes *int
}

func (s slow) Rebuild(*store.Snapshot, time.Time) error {
	time.Sleep(time.Second)
	*s.rebuilt++
	return nil
}

func (s slow) Finish(p *loop.Pass) error {
	if *s.passes++; *s.passes == 1 {
		p.After(func() { time.Sleep(time.Second) })
	}
	return nil
}

// TestALoopThatFellBehindCatchesUp has a client write in some milliseconds what the store keeps, while the loop takes a second for
// what a pass has decided, and then for reading everything anew.
func TestALoopThatFellBehindCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Open(t.TempDir()+"/jobd.db", store.Options{NoSync: true, HistoryBytes: 4 << 10})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		rebuilt, passes := 0, 0
		l := loop.New(loop.Config{
			Store: s, Inbox: loop.NewInbox(), Events: events.New("test"), Metrics: metrics.New(s), Logger: slog.New(slog.DiscardHandler),
			Controllers: func(*loop.Timers, *loop.Followers) []loop.Controller {
				return []loop.Controller{slow{rebuilt: &rebuilt, passes: &passes}}
			},
		})
		if err := l.Rebuild(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		for begin := time.Now(); time.Since(begin) < 10*time.Second; time.Sleep(time.Millisecond) {
			if err := s.Update(ctx, func(tx *store.Tx) error {
				tx.Put(store.Object{Key: "a/1", Value: make([]byte, 1<<10)})
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if rebuilt > 2 || passes < 1000 {
			t.Errorf("%d passes, and everything was read %d times, want twice", passes, rebuilt)
		}
	})
}

// busy is a controller that has so many decisions to take, and writes something with each.
type busy struct {
	loop.Base
	left *int
	told func()
}

func (b *busy) Dirty() bool { return *b.left > 0 }

func (b *busy) Settle(p *loop.Pass) (bool, error) {
	if *b.left == 0 {
		return false, nil
	}
	*b.left--
	p.PutStored(store.Object{Key: "a/1"})
	if *b.left == 0 {
		b.told()
	}
	return true, nil
}

// TestControllersShareThePasses has a controller with work for many passes, and others behind it.
func TestControllersShareThePasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Open(t.TempDir()+"/jobd.db", store.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		const passes = 20
		left := []int{passes * loop.Budget, 2 * loop.Budget, 1}
		var leftAtEnd [][]int // of all, when each has come to its end
		l := loop.New(loop.Config{
			Store: s, Inbox: loop.NewInbox(), Events: events.New("test"), Metrics: metrics.New(s), Logger: slog.New(slog.DiscardHandler),
			Controllers: func(*loop.Timers, *loop.Followers) (all []loop.Controller) {
				for i := range left {
					all = append(all, &busy{left: &left[i], told: func() { leftAtEnd = append(leftAtEnd, slices.Clone(left)) }})
				}
				return all
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if len(leftAtEnd) != 3 {
			t.Fatalf("%v are left", left)
		}
		if first := leftAtEnd[0]; first[2] != 0 || first[0] < (passes-2)*loop.Budget {
			t.Errorf("the last controller had its decision when %v were left", first)
		}
		if second := leftAtEnd[1]; second[1] != 0 || second[0] < passes/2*loop.Budget {
			t.Errorf("the second controller was done when %v were left", second)
		}
	})
}
