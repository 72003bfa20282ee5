package daemon

import (
	"context"
	"runtime/debug"
	gometrics "runtime/metrics"
	"time"

	"github.com/jobd/jobd/store"
)

// heapTrimmer returns memory to the system whenever the daemon has come to rest: left to itself Go keeps what a burst has
// needed, as much again as is in use and a tenth more, for as long as nothing happens.
type heapTrimmer struct {
	rest  time.Duration // how long nothing has been written when the daemon takes itself to be at rest
	worth int64         // how much more than at its last rest it must hold, in bytes
	held  func() int64
	free  func()
}

func newHeapTrimmer() heapTrimmer {
	return heapTrimmer{rest: 5 * time.Second, worth: 16 << 20, held: heldHeap, free: debug.FreeOSMemory}
}

// run ends with ctx and with the store. It wakes up when something has been written.
func (m heapTrimmer) run(ctx context.Context, s *store.Store) {
	var before int64
	for {
		version := s.Version()
		select {
		case <-ctx.Done():
			return
		case <-time.After(m.rest):
		}
		if s.Version() != version {
			continue
		}
		if m.held() > before+m.worth {
			m.free()
			before = m.held()
		}
		if s.Wait(ctx, version) != nil {
			return
		}
	}
}

// heldHeap is how much memory the heap takes of the system, in bytes: what is in use, garbage and room.
func heldHeap() int64 {
	samples := []gometrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	gometrics.Read(samples)
	held := int64(0)
	for _, s := range samples {
		held += int64(s.Value.Uint64())
	}
	return held
}
