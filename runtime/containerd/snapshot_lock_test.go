package containerd

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	"go.etcd.io/bbolt"
)

// slowSnapshots takes a moment for each change.
type slowSnapshots struct {
	snapshots.Snapshotter
	begun   chan struct{}
	changes atomic.Int32
}

func (s *slowSnapshots) Prepare(context.Context, string, string, ...snapshots.Opt) ([]mount.Mount, error) {
	s.changes.Add(1)
	close(s.begun)
	time.Sleep(50 * time.Millisecond) // so that a commit that does not wait comes in between
	s.changes.Add(-1)
	return nil, nil
}

func TestACommitWaitsForTheChangesOfImages(t *testing.T) {
	slow := &slowSnapshots{begun: make(chan struct{})}
	c := &commits{update: func(fn func(*bbolt.Tx) error) error {
		if n := slow.changes.Load(); n != 0 {
			t.Errorf("a commit begins in the middle of %d changes", n)
		}
		return fn(nil)
	}}
	ofImages := c.snapshots.forImages(slow)
	prepared := make(chan error)
	go func() {
		_, err := ofImages.Prepare(t.Context(), "key", "parent")
		prepared <- err
	}()
	<-slow.begun
	if err := c.run(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
	if err := <-prepared; err != nil {
		t.Error(err)
	}
}
