package control

import (
	"testing"
	"testing/synctest"

	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

func TestWhatACrashLeavesOfGoneObjectsIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		w.create(simulate("j", "1h", "0"))
		j := w.job("j")
		kept, left := memoryKey(j), store.Key(objects.Memories, "default", "gone")
		w.write(func(tx *store.Tx) error {
			tx.Put(store.Object{Key: kept, UID: string(j.UID), Value: []byte("{}")})
			tx.Put(store.Object{Key: left, UID: "gone", Value: []byte("{}")})
			return nil
		})
		w.stop()
		w.start()
		_ = w.store.View(func(s *store.Snapshot) error {
			if _, ok := s.Get(kept); !ok {
				t.Error("the memory of a living Job is gone")
			}
			if _, ok := s.Get(left); ok {
				t.Error("the memory of a Job that is gone is still there")
			}
			return nil
		})
	})
}
