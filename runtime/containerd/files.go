package containerd

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/errdefs"

	"github.com/jobd/jobd/runtime"
)

// WithFiles calls f with a directory that shows the root of a container that has ended, read-only, as it has left it: with
// its image, and without what was mounted there. The directory is gone when f has returned. A container that is not held
// any more is errdefs.ErrNotFound, and one that has not ended errdefs.ErrFailedPrecondition.
func (r *Runtime) WithFiles(ctx context.Context, id string, f func(root string) error) error {
	r.mu.Lock()
	held := r.containers[id]
	ended := held != nil && held.status.State == runtime.Exited
	r.mu.Unlock()
	switch {
	case held == nil:
		return fmt.Errorf("files of container %s: %w", id, errdefs.ErrNotFound)
	case !ended:
		return fmt.Errorf("files of container %s: it has not ended: %w", id, errdefs.ErrFailedPrecondition)
	}
	mounts, err := r.server.snapshots().Mounts(inNamespace(ctx), id)
	if err != nil {
		return fmt.Errorf("files of container %s: %w", id, err)
	}
	var failed error
	err = mount.WithReadonlyTempMount(ctx, mounts, func(root string) error {
		failed = f(root)
		return nil
	})
	return errors.Join(failed, err)
}
