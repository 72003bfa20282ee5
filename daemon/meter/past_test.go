package meter

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestPast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var broken atomic.Bool
		p := &Past{Logger: slog.New(slog.DiscardHandler), Machine: func() (Machine, error) {
			if broken.Load() {
				return Machine{}, errors.New("no /proc")
			}
			// One processor is busy in the first hour, and half of one after it.
			used := min(time.Since(began), time.Hour) + max(0, time.Since(began)-time.Hour)/2
			return Machine{CPU: used, WorkingSet: int64(time.Since(began) / time.Minute)}, nil
		}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan struct{})
		go func() { defer close(done); p.Run(ctx) }()
		if got := p.Used(); len(got.At) != 0 {
			t.Errorf("at first there is %v", got)
		}
		time.Sleep(90*time.Minute + time.Second)
		got := p.Used()
		if len(got.At) != 90 || got.CPU[59] != 1000 || got.CPU[60] != 500 || !slices.IsSorted(got.Memory) || got.Memory[89] != 90 ||
			got.At[89] != began.Add(90*time.Minute).Unix() {
			t.Errorf("after 90 minutes: %v", got)
		}
		time.Sleep(24 * time.Hour)
		if got := p.Used(); len(got.At) != 24*60 || got.At[0] != began.Add(91*time.Minute).Unix() {
			t.Errorf("after another day: %d, the oldest of %v", len(got.At), time.Unix(got.At[0], 0))
		}
		broken.Store(true)
		time.Sleep(3 * time.Minute)
		broken.Store(false)
		newest := func() time.Duration { return time.Unix(p.Used().At[24*60-1], 0).Sub(began) }
		before := newest()
		time.Sleep(time.Minute) // what was used while it could not be read is not known
		if got := newest(); got != before {
			t.Errorf("a figure of the time from %s to %s", before, got)
		}
		time.Sleep(time.Minute)
		if got := newest(); got != before+5*time.Minute {
			t.Errorf("after a hole, %s instead of %s", got, before+5*time.Minute)
		}
		cancel()
		<-done
	})
}
