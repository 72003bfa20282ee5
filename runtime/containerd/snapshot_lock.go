package containerd

import (
	"context"
	"sync"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
)

// snapshotLock keeps changes to the snapshots of images apart from commits about containers. containerd's metadata
// holds a lock of the snapshotter while a change waits for the database. A commit holds the database while it waits for
// that lock, though only to read; once the garbage collector waits for the lock too, readers have to wait behind it,
// and none of the three would ever continue.
//
// Changes for images hold it for reading, commits hold it for writing.
type snapshotLock struct{ sync.RWMutex }

// forImages returns a snapshotter whose changes take the lock.
func (l *snapshotLock) forImages(s snapshots.Snapshotter) snapshots.Snapshotter {
	return &snapshotsOfImages{s, l}
}

type snapshotsOfImages struct {
	snapshots.Snapshotter
	lock *snapshotLock
}

func (s *snapshotsOfImages) Prepare(
	ctx context.Context, key, parent string, opts ...snapshots.Opt,
) ([]mount.Mount, error) {
	s.lock.RLock()
	defer s.lock.RUnlock()
	return s.Snapshotter.Prepare(ctx, key, parent, opts...)
}

func (s *snapshotsOfImages) View(
	ctx context.Context, key, parent string, opts ...snapshots.Opt,
) ([]mount.Mount, error) {
	s.lock.RLock()
	defer s.lock.RUnlock()
	return s.Snapshotter.View(ctx, key, parent, opts...)
}

func (s *snapshotsOfImages) Commit(ctx context.Context, name, key string, opts ...snapshots.Opt) error {
	s.lock.RLock()
	defer s.lock.RUnlock()
	return s.Snapshotter.Commit(ctx, name, key, opts...)
}

func (s *snapshotsOfImages) Update(ctx context.Context, info snapshots.Info, fields ...string) (snapshots.Info, error) {
	s.lock.RLock()
	defer s.lock.RUnlock()
	return s.Snapshotter.Update(ctx, info, fields...)
}

func (s *snapshotsOfImages) Remove(ctx context.Context, key string) error {
	s.lock.RLock()
	defer s.lock.RUnlock()
	return s.Snapshotter.Remove(ctx, key)
}
