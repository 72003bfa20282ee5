package image

import (
	"context"

	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
)

// found are snapshots of which those that are found within a lease stay for as long as that lasts, as those do that are written in it:
// one that a failed pull has left, or that another one has just written, would be collected as nobody's before the next layer is
// unpacked on it.
type found struct {
	snapshots.Snapshotter
	name   string
	leases leases.Manager
}

// Stat implements snapshots.Snapshotter.
func (f found) Stat(ctx context.Context, key string) (snapshots.Info, error) {
	info, err := f.Snapshotter.Stat(ctx, key)
	lease, leased := leases.FromContext(ctx)
	if err != nil || !leased {
		return info, err
	}
	if err := f.leases.AddResource(ctx, leases.Lease{ID: lease}, leases.Resource{ID: key, Type: "snapshots/" + f.name}); err != nil {
		return snapshots.Info{}, err
	}
	return f.Snapshotter.Stat(ctx, key) // it may have been collected meanwhile
}

// Commit implements snapshots.Snapshotter. Whoever unpacks goes on with a layer that another one has committed first.
func (f found) Commit(ctx context.Context, name, key string, opts ...snapshots.Opt) error {
	err := f.Snapshotter.Commit(ctx, name, key, opts...)
	if errdefs.IsAlreadyExists(err) {
		if _, gone := f.Stat(ctx, name); gone != nil {
			return gone
		}
	}
	return err
}
