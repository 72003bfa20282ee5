package containerd

import (
	"context"
	"sync"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
)

// turns keeps changes of snapshots by images and commits about containers apart. containerd's metadata holds a lock of the
// snapshotter while a change waits for the database; a commit holds the database while it waits for that lock, which it
// does not get, though it only reads, once the garbage collector waits for it too: none of the three would ever go on.
//
// Images read-lock it, commits lock it.
type turns struct{ sync.RWMutex }

// forImages gives a snapshotter whose changes wait for their turn.
func (t *turns) forImages(s snapshots.Snapshotter) snapshots.Snapshotter {
	return &snapshotsOfImages{s, t}
}

type snapshotsOfImages struct {
	snapshots.Snapshotter
	turns *turns
}

func (s *snapshotsOfImages) Prepare(ctx context.Context, key, parent string, opts ...snapshots.Opt) ([]mount.Mount, error) {
	s.turns.RLock()
	defer s.turns.RUnlock()
	return s.Snapshotter.Prepare(ctx, key, parent, opts...)
}

func (s *snapshotsOfImages) View(ctx context.Context, key, parent string, opts ...snapshots.Opt) ([]mount.Mount, error) {
	s.turns.RLock()
	defer s.turns.RUnlock()
	return s.Snapshotter.View(ctx, key, parent, opts...)
}

func (s *snapshotsOfImages) Commit(ctx context.Context, name, key string, opts ...snapshots.Opt) error {
	s.turns.RLock()
	defer s.turns.RUnlock()
	return s.Snapshotter.Commit(ctx, name, key, opts...)
}

func (s *snapshotsOfImages) Update(ctx context.Context, info snapshots.Info, fields ...string) (snapshots.Info, error) {
	s.turns.RLock()
	defer s.turns.RUnlock()
	return s.Snapshotter.Update(ctx, info, fields...)
}

func (s *snapshotsOfImages) Remove(ctx context.Context, key string) error {
	s.turns.RLock()
	defer s.turns.RUnlock()
	return s.Snapshotter.Remove(ctx, key)
}
