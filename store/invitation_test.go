package store

import (
	"errors"
	"testing"
	"testing/synctest"
)

// TestInvitations lets somebody who follows the store answer an invitation while another one writes.
func TestInvitations(t *testing.T) {
	refused := errors.New("refused")
	for name, c := range map[string]struct {
		answer  func(*Invitation) error
		want    error
		changes uint64
	}{
		"what follows is in the same commit": {func(i *Invitation) error {
			return i.Update(func(tx *Tx) error {
				if _, ok := tx.Get("a/1"); !ok {
					t.Error("what it follows from is not seen")
				}
				tx.Put(Object{Key: "b/1"})
				return nil
			})
		}, nil, 2},
		"nothing follows":           {func(i *Invitation) error { return i.Update(func(*Tx) error { return nil }) }, nil, 1},
		"a failure is its own":      {func(i *Invitation) error { return i.Update(func(*Tx) error { return refused }) }, refused, 1},
		"an invitation is declined": {func(i *Invitation) error { i.Decline(); return nil }, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := Open(t.TempDir()+"/jobd.db", Options{NoSync: true})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				before := s.Version()
				answered := make(chan error, 1)
				go func() { answered <- c.answer(<-s.Invitations()) }()
				synctest.Wait()
				if err := s.Update(t.Context(), func(tx *Tx) error { tx.Put(Object{Key: "a/1"}); return nil }); err != nil {
					t.Error(err)
				}
				if got := s.Version() - before; got != c.changes {
					t.Errorf("%d changes, want %d", got, c.changes)
				}
				if err := <-answered; !errors.Is(err, c.want) {
					t.Errorf("the follower's error is %v", err)
				}
				// Nobody is invited to what changes nothing, and nobody waits for those who are busy.
				for _, key := range []string{"", "a/2"} {
					if err := s.Update(t.Context(), func(tx *Tx) error {
						if key != "" {
							tx.Put(Object{Key: key})
						}
						return nil
					}); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}
