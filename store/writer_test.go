package store

import (
	"errors"
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

// TestARefusalWaitsForWhatItHasSeen has a transaction fail because of what one before it in its group has written: that is true
// only if the group is committed.
func TestARefusalWaitsForWhatItHasSeen(t *testing.T) {
	exists := errors.New("exists")
	for name, test := range map[string]struct {
		last func(*Tx)
		want error
	}{
		"committed": {func(tx *Tx) { tx.Put(Object{Key: "b"}) }, exists},
		"failed":    {func(tx *Tx) { tx.add(write{}) }, nil}, // what bolt refuses
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := Open(t.TempDir()+"/jobd.db", Options{NoSync: true})
				if err != nil {
					t.Fatal(err)
				}
				refused, last := make(chan error, 1), make(chan error, 1)
				first := s.Update(t.Context(), func(tx *Tx) error {
					tx.Put(Object{Key: "a"})
					go func() {
						refused <- s.Update(t.Context(), func(tx *Tx) error {
							if _, ok := tx.Get("a"); !ok {
								t.Error("the group is not shared")
							}
							return exists
						})
					}()
					synctest.Wait()
					go func() {
						last <- s.Update(t.Context(), func(tx *Tx) error { test.last(tx); return nil })
					}()
					synctest.Wait()
					return nil
				})
				err = <-refused
				if <-last; test.want != nil && err != test.want || test.want == nil && (err == nil || err != first) {
					t.Errorf("it was told %v, who wrote %v", err, first)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
