package main

import (
	"runtime"
	"testing"
	"time"
)

func TestCollectionPercent(t *testing.T) {
	for _, c := range []struct {
		live  int64
		since time.Duration
		want  int
	}{
		{20 << 20, time.Minute, 100},
		{20 << 20, 100 * time.Millisecond, 320},
		{64 << 20, 100 * time.Millisecond, 100},
		{300 << 20, 100 * time.Millisecond, 100},
		{1 << 20, 100 * time.Millisecond, 400},
	} {
		if got := collectionPercent(c.live, c.since); got != c.want {
			t.Errorf("%d MB, %s after the last: %d %%, want %d", c.live>>20, c.since, got, c.want)
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
