package daemon

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/jobd/jobd/store"
)

// Memory is given back at rest when there is more of it than at the last rest by what is worth it.
func TestHeapIsTrimmedAtRest(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "jobd.db"), store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	held, freed := make(chan int64), make(chan struct{})
	m := heapTrimmer{rest: time.Millisecond, worth: 100, held: func() int64 { return <-held }, free: func() { freed <- struct{}{} }}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); m.run(ctx, s) }()

	// Whoever does not free what is worth it, or frees what is not, waits for ever at the next step.
	late := time.After(time.Minute)
	say := func(bytes int64) {
		select {
		case held <- bytes:
		case <-late:
			t.Fatalf("nobody asks how much is held, which is %d", bytes)
		}
	}
	for _, c := range []struct {
		held  int64
		freed bool
		left  int64
	}{{101, true, 50}, {150, false, 0}, {151, true, 150}, {250, false, 0}} {
		say(c.held)
		if c.freed {
			select {
			case <-freed:
			case <-late:
				t.Fatalf("with %d held nothing is freed", c.held)
			}
			say(c.left)
		}
		if err := s.Update(ctx, func(tx *store.Tx) error {
			tx.Put(store.Object{Key: "jobs.batch/default/pi"})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	select {
	case <-ended:
	case held <- 0: // it had come to rest once more
		<-ended
	}
}

// What the runtime calls these figures may change with Go.
func TestHeldHeapIsKnown(t *testing.T) {
	if held := heldHeap(); held <= 0 {
		t.Errorf("the heap holds %d bytes", held)
	}
}
