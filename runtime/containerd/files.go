package containerd

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"

	"github.com/jobd/jobd/runtime"
)

// WithFiles calls f with a directory that shows the root of a container that has ended, read-only, as it has left it: with
// its image, and without what was mounted there. The directory has no place of its own on the host, and is gone when f has
// returned. A container that is not held any more is errdefs.ErrNotFound, and one that has not ended
// errdefs.ErrFailedPrecondition.
func (r *Runtime) WithFiles(ctx context.Context, id string, f func(root string) error) error {
	if err := r.keepFiles(id); err != nil {
		return fmt.Errorf("files of container %s: %w", id, err)
	}
	mounts, err := r.server.snapshots().Mounts(inNamespace(ctx), id)
	if err != nil {
		return fmt.Errorf("files of container %s: %w", id, err)
	}
	root, err := openRoot(r.config.State, mounts)
	if err != nil {
		return fmt.Errorf("files of container %s: %w", id, err)
	}
	defer root.Close()
	return f(fmt.Sprintf("/proc/self/fd/%d", root.Fd()))
}

// keepFiles has the layer of a container that has ended removed with it rather than used again: f may look at it for hours, while
// the container is removed and another one would write there.
func (r *Runtime) keepFiles(id string) error {
	r.mu.Lock()
	held := r.containers[id]
	r.mu.Unlock()
	if held == nil {
		return errdefs.ErrNotFound
	}
	held.busy.Lock() // so that it is not removed meanwhile
	defer held.busy.Unlock()
	r.mu.Lock()
	removed, state := held.removed, held.status.State
	r.mu.Unlock()
	switch {
	case removed:
		return errdefs.ErrNotFound
	case state != runtime.Exited:
		return fmt.Errorf("it has not ended: %w", errdefs.ErrFailedPrecondition)
	}
	return r.server.layers.keep(id)
}
