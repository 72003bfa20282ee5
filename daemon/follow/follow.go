// Package follow helps to keep something in step with the store outside of the control loop: network rules, for example.
//
// Objects and changes of the store come in, and go out to their followers. Signals turn a burst of changes into one piece
// of work.
package follow

import (
	"context"
	"errors"

	"github.com/jobd/jobd/store"
)

// batch is how many changes are taken at a time.
const batch = 256

// Follower is called with every object below a prefix, and then with each change. If changes were missed, everything is
// dropped and read again.
type Follower struct {
	Show  func(o store.Object, gone bool)
	Shown func() // called once all objects were shown
	Drop  func()
}

// Prefix calls f with the objects below a prefix, until ctx ends or the store is closed.
func Prefix(ctx context.Context, s *store.Store, prefix string, f Follower) {
	read := func() (at uint64) {
		if s.View(func(snapshot *store.Snapshot) error {
			at = snapshot.Version()
			snapshot.Range(prefix, "", func(o store.Object) bool {
				f.Show(o, false)
				return true
			})
			return nil
		}) == nil {
			f.Shown()
		}
		return at
	}
	take := func(changes []store.Change) {
		for _, c := range changes {
			f.Show(c.Object, c.Deleted)
		}
	}
	Changes(ctx, s, prefix, read(), take, func() uint64 {
		f.Drop()
		return read()
	})
}

// Changes calls take with the changes below a prefix after a version, until ctx ends or the store is closed. When some were
// missed it calls again, which has to read what there is, and goes on after the version that again returns.
func Changes(
	ctx context.Context, s *store.Store, prefix string, after uint64, take func([]store.Change), again func() (at uint64),
) {
	for cursor := s.Cursor(after, prefix); ; {
		changes, _, err := cursor.Next(ctx, batch)
		if errors.Is(err, store.ErrCompacted) {
			cursor = s.Cursor(again(), prefix)
			continue
		} else if err != nil {
			return
		}
		take(changes)
	}
}
