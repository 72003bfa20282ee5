package main

import (
	"runtime"
	"testing"
	"time"
)

func TestCollectionPercent(t *testing.T) {
	for _, c := range []struct {
		live    int64
		since   time.Duration
		percent int // until then
		want    int
	}{
		{20 << 20, time.Minute, 100, 100},
		{20 << 20, time.Minute, 320, 100},
		{20 << 20, 100 * time.Millisecond, 100, 320},
		{64 << 20, 100 * time.Millisecond, 100, 100},
		// Much that is in use leaves less room beside it, whether or not the daemon is busy.
		{80 << 20, 100 * time.Millisecond, 100, 80},
		{80 << 20, time.Minute, 80, 80},
		{300 << 20, 100 * time.Millisecond, 100, 50},
		{300 << 20, time.Minute, 100, 50},
		{60 << 20, time.Minute, 50, 100},
		{1 << 20, 100 * time.Millisecond, 100, 400},
		// What took four seconds with twice the room would have taken two without.
		{32 << 20, 4 * time.Second, 200, 200},
		{32 << 20, 3 * time.Second, 100, 100},
		// The collection at rest ends the headroom, however large that was.
		{16 << 20, 5 * time.Second, 400, 100},
	} {
		if got := collectionPercent(c.live, c.since, c.percent); got != c.want {
			t.Errorf("%d MB, %s after the last with %d %%: %d %%, want %d", c.live>>20, c.since, c.percent, got, c.want)
		}
	}
}

// What the runtime calls this figure may change with Go.
func TestLiveHeapIsKnown(t *testing.T) {
	runtime.GC()
	if live := liveHeap(); live <= 0 {
		t.Errorf("%d bytes are in use", live)
	}
}
