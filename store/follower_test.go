package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

// TestTheFollowerComesNext has many wait for their turn when the follower asks for its own.
func TestTheFollowerComesNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(t.TempDir()+"/jobd.db", Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		const writers = 2 * maxGroup
		begin := s.Version()
		done := make(chan error, writers+1)
		write := func(i int) {
			done <- s.Update(t.Context(), func(tx *Tx) error { tx.Put(Object{Key: fmt.Sprint("a/", i)}); return nil })
		}
		var seen []uint64 // by the follower, each time
		if err := s.Update(t.Context(), func(tx *Tx) error {
			tx.Put(Object{Key: "a/first"})
			for i := range writers {
				go write(i)
			}
			synctest.Wait()
			go func() {
				var err error
				for range 2 {
					err = errors.Join(err, s.Follow(t.Context(), func(tx *Tx) error {
						seen = append(seen, tx.Version()-begin)
						tx.Put(Object{Key: "b/large", Value: make([]byte, 2*maxGroupBytes)}) // which leaves no room for others
						return nil
					}))
				}
				done <- err
			}()
			synctest.Wait()
			return nil
		}); err != nil {
			t.Error(err)
		}
		for range writers + 1 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if seen[0] != 1 {
			t.Errorf("the follower had its turn after %d others, want 1", seen[0])
		}
		if others := seen[1] - seen[0] - 1; others == 0 || others > 2*maxGroup {
			t.Errorf("%d others had their turn before it had its second, want some", others)
		}
	})
}

// TestTheHistoryIsKeptForTheFollower writes more than the history usually has, while the follower does something else.
func TestTheHistoryIsKeptForTheFollower(t *testing.T) {
	const history, size = 64 << 10, 4 << 10
	value := strings.Repeat("x", size)
	for name, c := range map[string]struct {
		follows    bool
		superseded int // between two turns of the follower
		want       error
	}{
		"nobody follows":                   {superseded: history + history/2, want: ErrCompacted},
		"the follower has not seen it yet": {follows: true, superseded: history + history/2},
		"it is very much":                  {follows: true, superseded: 3 * history, want: ErrCompacted},
	} {
		t.Run(name, func(t *testing.T) {
			s := openTest(t, Options{HistoryBytes: history, NoSync: true})
			put(t, s, "a/1", value)
			from := s.Version()
			read := func(sn *Snapshot) error { return sn.Changes(from, func(Change) bool { return true }) }
			if c.follows {
				if err := s.Follow(t.Context(), func(*Tx) error { return nil }); err != nil {
					t.Fatal(err)
				}
			}
			for range c.superseded / size {
				put(t, s, "a/1", value)
			}
			if err := s.View(read); !errors.Is(err, c.want) {
				t.Errorf("reading what was not seen: %v, want %v", err, c.want)
			}
			if err := s.Follow(t.Context(), func(*Tx) error { return nil }); err != nil {
				t.Fatal(err)
			}
			put(t, s, "a/1", value)
			stats, err := s.Stats()
			if err != nil || stats.HistoryBytes > history+history/8 {
				t.Errorf("%d bytes are kept after that, want %d: %v", stats.HistoryBytes, history, err)
			}
		})
	}
}

// On a full disk, what is kept for the follower leaves some of the reserve.
func TestAFullDiskKeepsLessForTheFollower(t *testing.T) {
	o := Options{HistoryBytes: 64 << 20, Reserve: 16 << 20}
	if k := (&reserve{short: true}).history(o); k.bytes+k.unseen >= o.Reserve || k.unseen < maxGroupBytes {
		t.Errorf("%+v are kept with a reserve of %d bytes", k, o.Reserve)
	}
}
