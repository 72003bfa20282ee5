package worker

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A task that hangs lets others go on, but there is a bound to how many may hang: each costs the machine something.
func TestSlotsAreLentToABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots, all = 2, 20
		limit := newLimiter(slots)
		var begun, ended atomic.Int32
		end := make(chan struct{})
		for range all {
			limit.Go(func(s *slot) {
				begun.Add(1)
				s.Hold(func() { <-end })
				ended.Add(1)
			})
		}
		for _, step := range []struct {
			ends int
			want int32
		}{{0, lendingFactor * slots}, {1, lendingFactor*slots + 1}, {3, lendingFactor*slots + 4}} {
			for range step.ends {
				end <- struct{}{}
			}
			time.Sleep(100 * patience)
			if got := begun.Load(); got != step.want {
				t.Errorf("%d have begun, want %d", got, step.want)
			}
		}
		close(end)
		synctest.Wait()
		if begun.Load() != all || ended.Load() != all {
			t.Errorf("%d of %d have begun, %d have ended", begun.Load(), all, ended.Load())
		}
		if limit.free != slots || limit.lendable != (lendingFactor-1)*slots || len(limit.lenders) > 0 {
			t.Errorf("at the end: %d free, %d to be lent, %d lenders", limit.free, limit.lendable, len(limit.lenders))
		}
	})
}

// A task that waits for something else lends its slot without a bound: it costs nothing.
func TestWhoYieldsDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = 50
		limit := newLimiter(1)
		var begun atomic.Int32
		end := make(chan struct{})
		for range all {
			limit.Go(func(s *slot) {
				s.Hold(func() {
					begun.Add(1)
					s.Yield(func() { <-end })
				})
			})
		}
		synctest.Wait()
		if begun.Load() != all {
			t.Errorf("%d have begun", begun.Load())
		}
		close(end)
		synctest.Wait()
		if limit.free != 1 || limit.lendable != lendingFactor-1 {
			t.Errorf("at the end: %d free, %d to be lent", limit.free, limit.lendable)
		}
	})
}
