package store

import (
	"testing"
	"testing/synctest"
)

// TestAGroupThatFailsLeavesNobodyWaiting lets a write fail below the transaction, as on a full disk, while another one is
// queued: that one has its turn all the same.
func TestAGroupThatFailsLeavesNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(t.TempDir()+"/jobd.db", Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		queued := make(chan error, 1)
		err = s.Update(t.Context(), func(tx *Tx) error {
			tx.add(write{}) // what bolt refuses
			go func() {
				queued <- s.Update(t.Context(), func(tx *Tx) error { tx.Put(Object{Key: "a/1"}); return nil })
			}()
			synctest.Wait()
			return nil
		})
		if err == nil {
			t.Error("what cannot be written is confirmed")
		}
		if err := <-queued; err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
