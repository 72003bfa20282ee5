package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	nativesnapshotter "github.com/containerd/containerd/v2/plugins/snapshots/native"
	"github.com/containerd/containerd/v2/plugins/snapshots/overlay"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/jobd/jobd/runtime/untrusted"
)

const (
	overlayfs = "overlayfs"
	native    = "native"
)

// layers is containerd's own snapshotter, except for the writable layers of containers. With overlayfs those are
// recycled. Otherwise they are snapshots of the backend, which are hidden from the garbage collector until the
// transaction that makes them has committed: the collector removes what it does not find in the database. Their keys in
// the backend are known, so that they can be removed at once, without a collection.
type layers struct {
	snapshots.Snapshotter
	recycled *recycledLayers // nil without overlayfs

	mu     sync.Mutex
	keys   map[string]string // container id -> key
	hidden map[string]bool   // by key
}

// openLayers opens the snapshotter called name below root. The directory links holds what a reboot invalidates.
func openLayers(name, root, links string) (*layers, error) {
	l := &layers{keys: map[string]string{}, hidden: map[string]bool{}}
	var err error
	if name == overlayfs {
		l.Snapshotter, err = overlay.NewSnapshotter(root, overlay.AsynchronousRemove)
	} else {
		l.Snapshotter, err = nativesnapshotter.NewSnapshotter(root)
	}
	if err == nil && name == overlayfs {
		l.recycled, err = openRecycledLayers(l.Snapshotter, filepath.Join(root, "containers"), links)
	}
	if err != nil {
		return nil, fmt.Errorf("snapshotter %s: %w", name, err)
	}
	return l, nil
}

type containerKey struct{}

// ofContainer describes the container that a snapshot is made for.
type ofContainer struct {
	id     string
	shard  int
	alone  bool
	mounts []specs.Mount
	users  specs.LinuxIDMapping // of its own user namespace; Size is 0 without one
}

// forContainer marks a Prepare as one for a container's snapshot, in a transaction that may still fail.
func forContainer(ctx context.Context, of ofContainer) context.Context {
	return context.WithValue(ctx, containerKey{}, of)
}

func (l *layers) Prepare(ctx context.Context, key, parent string, opts ...snapshots.Opt) ([]mount.Mount, error) {
	of, ok := ctx.Value(containerKey{}).(ofContainer)
	if !ok {
		return prepare(ctx, l.Snapshotter, key, parent, opts...)
	}
	if l.recycled != nil {
		return l.recycled.take(ctx, parent, of)
	}
	l.mu.Lock()
	l.keys[of.id], l.hidden[key] = key, true
	l.mu.Unlock()
	return prepare(ctx, l.Snapshotter, key, parent, opts...)
}

// prepare calls Prepare of a backend. A crash in one call can leave a directory in the way of the next, which then
// removes it.
func prepare(
	ctx context.Context, backend snapshots.Snapshotter, key, parent string, opts ...snapshots.Opt,
) ([]mount.Mount, error) {
	mounts, err := backend.Prepare(ctx, key, parent, opts...)
	cleaner, ok := backend.(snapshots.Cleaner)
	if !ok || !errors.Is(err, fs.ErrExist) {
		return mounts, err
	}
	if err := cleaner.Cleanup(ctx); err != nil {
		return nil, err
	}
	return backend.Prepare(ctx, key, parent, opts...)
}

// find returns the recycled layer of the container that a key of the backend belongs to.
func (l *layers) find(key string) (recycledLayer, bool) {
	if l.recycled == nil {
		return recycledLayer{}, false
	}
	return l.recycled.of(containerOf(key))
}

// containerOf returns the container that a layer belongs to, by the database's key for the backend:
// namespace/number/container.
func containerOf(key string) string {
	parts := strings.SplitN(key, "/", 3)
	if len(parts) != 3 || parts[0] != namespace {
		return ""
	}
	return parts[2]
}

func (l *layers) Mounts(ctx context.Context, key string) ([]mount.Mount, error) {
	one, ok := l.find(key)
	if !ok {
		return l.Snapshotter.Mounts(ctx, key)
	}
	b, err := l.recycled.base(ctx, one.parent)
	return l.recycled.mounts(one, b), err
}

func (l *layers) Stat(ctx context.Context, key string) (snapshots.Info, error) {
	one, ok := l.find(key)
	if !ok {
		return l.Snapshotter.Stat(ctx, key)
	}
	return snapshots.Info{
		Kind: snapshots.KindActive, Name: key, Parent: one.parent, Created: one.since, Updated: one.since,
	}, nil
}

func (l *layers) Usage(ctx context.Context, key string) (snapshots.Usage, error) {
	one, ok := l.find(key)
	if !ok {
		return l.Snapshotter.Usage(ctx, key)
	}
	return l.recycled.usage(ctx, one)
}

// settle lets the garbage collector see the layer of a container, once the transaction has committed.
func (l *layers) settle(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.hidden, l.keys[id])
}

// keep lets what a container has written be seen by no other container later.
func (l *layers) keep(id string) error {
	if l.recycled == nil {
		return nil
	}
	return l.recycled.keep(id)
}

// discard removes the snapshot of a container that is no longer in the database.
func (l *layers) discard(ctx context.Context, id string) error {
	if l.recycled != nil {
		return l.recycled.release(ctx, id)
	}
	l.mu.Lock()
	key, ok := l.keys[id]
	l.mu.Unlock()
	if !ok {
		return nil
	}
	err := l.remove(ctx, key)
	l.mu.Lock()
	delete(l.keys, id)
	delete(l.hidden, key)
	l.mu.Unlock()
	return err
}

func (l *layers) remove(ctx context.Context, key string) error {
	mounts, _ := l.Snapshotter.Mounts(ctx, key)
	return removeLayer(ctx, l.Snapshotter, key, mounts)
}

// removeLayer removes a snapshot of the backend together with its directory, which overlayfs leaves to the collector.
func removeLayer(ctx context.Context, backend snapshots.Snapshotter, key string, mounts []mount.Mount) error {
	if err := backend.Remove(ctx, key); err != nil && !errors.Is(err, errdefs.ErrNotFound) {
		return fmt.Errorf("remove snapshot %s: %w", key, err)
	}
	for _, m := range mounts {
		for _, option := range m.Options {
			if upper, ok := strings.CutPrefix(option, "upperdir="); ok {
				if err := untrusted.Remove(ctx, filepath.Dir(upper)); err != nil {
					return fmt.Errorf("remove snapshot %s: %w", key, err)
				}
			}
		}
	}
	return nil
}

// Walk leaves out hidden snapshots and those that exist only for a moment.
func (l *layers) Walk(ctx context.Context, fn snapshots.WalkFunc, filters ...string) error {
	return l.Snapshotter.Walk(ctx, func(ctx context.Context, info snapshots.Info) error {
		l.mu.Lock()
		hidden := l.hidden[info.Name]
		l.mu.Unlock()
		if hidden || strings.HasPrefix(info.Name, basePrefix) {
			return nil
		}
		return fn(ctx, info)
	}, filters...)
}

// Cleanup removes directories that belong to no snapshot.
func (l *layers) Cleanup(ctx context.Context) error {
	if cleaner, ok := l.Snapshotter.(snapshots.Cleaner); ok {
		if err := cleaner.Cleanup(ctx); !errors.Is(err, errdefs.ErrNotFound) { // there has not been a snapshot yet
			return err
		}
	}
	return nil
}

// sweep learns which layers containers have, and removes those of containers that are not known.
func (l *layers) sweep(ctx context.Context, known func(container string) bool) error {
	if l.recycled != nil {
		return l.recycled.sweep(ctx, known)
	}
	var orphans []string
	err := l.Snapshotter.Walk(ctx, func(_ context.Context, info snapshots.Info) error {
		container := containerOf(info.Name)
		if container == "" || info.Kind != snapshots.KindActive {
			return nil
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		switch {
		case l.hidden[info.Name]:
		case known(container):
			l.keys[container] = info.Name
		default:
			orphans = append(orphans, info.Name)
		}
		return nil
	})
	if errors.Is(err, errdefs.ErrNotFound) {
		err = nil // there has not been a snapshot yet
	}
	for _, key := range orphans {
		err = errors.Join(err, l.remove(ctx, key))
	}
	return err
}
