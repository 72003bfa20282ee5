package control_test

import (
	"testing"
	"testing/synctest"

	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

func TestWhatACrashLeavesOfGoneObjectsIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		w.Create(controltest.Simulate("j", "1h", "0"))
		j := w.Job("j")
		kept, left := objects.Key(objects.Memories, j), store.Key(objects.Memories, "default", "gone")
		w.Write(func(tx *store.Tx) error {
			tx.Put(store.Object{Key: kept, UID: string(j.UID), Value: []byte("{}")})
			tx.Put(store.Object{Key: left, UID: "gone", Value: []byte("{}")})
			return nil
		})
		w.Stop()
		w.Start()
		_ = w.Store.View(func(s *store.Snapshot) error {
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
