package containerd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"

	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/crash"
)

// killTimeout is how long a container may take to end after SIGKILL. One that takes longer hangs in the kernel.
const killTimeout = 10 * time.Second

// Remove forgets a container. The object goes first and the shard's record last: a crash in between leaves a record
// that no object belongs to, which the next Open finds, and never an object that looks as if it had not been started.
func (r *Runtime) Remove(ctx context.Context, id string) error {
	if err := r.remove(inNamespace(ctx), id); err != nil {
		return fmt.Errorf("remove container %s: %w", id, err)
	}
	return nil
}

func (r *Runtime) remove(ctx context.Context, id string) error {
	r.mu.Lock()
	held := r.containers[id]
	r.mu.Unlock()
	if held == nil {
		return nil
	}
	if !held.busy.TryLock() {
		// The start is called off rather than waited for: it may take minutes.
		stop := r.callOffAgain(ctx, id, held)
		held.busy.Lock()
		stop()
	}
	defer held.busy.Unlock()
	if held.removed {
		return nil
	}
	if err := r.kill(ctx, id, held); err != nil {
		return err
	}
	crash.At("remove.ended")
	store, snapshotter := r.server.containers(), r.server.snapshots()
	err := r.server.commits.runLater(ctx, func(ctx context.Context) error {
		return deleteContainer(ctx, store, snapshotter, id)
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	held.removed = true
	delete(r.containers, id)
	r.mu.Unlock()
	crash.At("remove.forgotten")
	if _, err := r.shards.at(held.shard).Delete(ctx, id); err != nil {
		return err
	}
	crash.At("remove.acknowledged")
	r.discard(id)
	return nil
}

// callOffPause is the time between attempts to call a start off.
const callOffPause = 100 * time.Millisecond

// callOffAgain calls off the start of a container again and again, since it may not have reached the shard yet, until
// the start is over or stop is called.
func (r *Runtime) callOffAgain(ctx context.Context, id string, held *container) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var calling sync.WaitGroup
	calling.Go(func() {
		for {
			err := r.callOff(ctx, id, held)
			if errdefs.IsFailedPrecondition(err) || errdefs.IsNotImplemented(err) {
				return // its start is over, or its shard is of an older version
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(callOffPause):
			}
		}
	})
	return func() { cancel(); calling.Wait() }
}

// deleteContainer removes an object and its snapshot from the database, whichever of them exists.
func deleteContainer(ctx context.Context, store containers.Store, snapshotter snapshots.Snapshotter, id string) error {
	if err := store.Delete(ctx, id); err != nil && !errors.Is(err, errdefs.ErrNotFound) {
		return err
	}
	if err := snapshotter.Remove(ctx, id); err != nil && !errors.Is(err, errdefs.ErrNotFound) {
		return err
	}
	return nil
}

// discard removes a snapshot that is no longer in the database, in the background, since nobody has to wait for its
// directories to go. It blocks while too many are being removed, so that they do not pile up.
func (r *Runtime) discard(id string) {
	r.discards <- struct{}{}
	r.cleanup.Go(func() {
		defer func() { <-r.discards }()
		if err := r.server.layers.discard(context.Background(), id); err != nil {
			r.logger.Warn("cannot remove the snapshot of a container, which is retried at the next start", "container", id,
				"error", err)
		}
	})
}

// kill sends SIGKILL to a running container and waits for its end.
func (r *Runtime) kill(ctx context.Context, id string, held *container) error {
	r.mu.Lock()
	running := held.status.State == runtime.Running
	r.mu.Unlock()
	if !running {
		return nil
	}
	err := r.shards.at(held.shard).Signal(ctx, id, syscall.SIGKILL, true)
	if err != nil && !errors.Is(err, errdefs.ErrNotFound) {
		return err
	}
	r.release(r.podOf(held), id)
	select {
	case <-held.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(killTimeout):
		return fmt.Errorf("it does not end: %w", errdefs.ErrUnavailable)
	}
}
