package daemon

import (
	"context"
	"runtime/debug"
	gometrics "runtime/metrics"
	"time"

	"github.com/jobd/jobd/store"
)

// heapTrimmer returns memory to the system when the daemon comes to rest. Left to itself, Go keeps what a burst has
// needed, as much again as is in use and a tenth more, for as long as nothing happens.
type heapTrimmer struct {
	rest  time.Duration // how long nothing has to be written before the daemon counts as at rest
	worth int64         // how much more it must hold than at its last rest, in bytes
	held  func() int64
	free  func()
}

func newHeapTrimmer() heapTrimmer {
	return heapTrimmer{rest: 5 * time.Second, worth: 16 << 20, held: heldHeap, free: debug.FreeOSMemory}
}

// run ends with ctx or with the store. It wakes up when something has been written.
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

// heldHeap returns how much memory the heap takes from the system, in bytes: objects in use, garbage and free space.
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
