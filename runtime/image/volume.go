package image

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"

	"github.com/jobd/jobd/runtime"
)

// A volume has a view of its image, which keeps the layers until the volume is gone, whatever becomes of the image's name.
const (
	volumePrefix = "volume-"
	labelVolume  = "dev.jobd.image-volume" // the name of the image
)

// Mount mounts the files of an image at a directory, for reading only. The name is that of the volume on this machine.
func (i *Images) Mount(ctx context.Context, name string, img runtime.Image, at string) error {
	ctx = i.inNamespace(ctx)
	views := i.client.SnapshotService(i.options.Snapshotter)
	key := volumePrefix + name
	mounts, err := views.View(ctx, key, img.ChainID, snapshots.WithLabels(map[string]string{
		"containerd.io/gc.root": time.Now().UTC().Format(time.RFC3339), // the collector leaves it alone
		labelVolume:             img.Name,
	}))
	if errdefs.IsAlreadyExists(err) { // before a crash or a reboot
		mounts, err = views.Mounts(ctx, key)
	}
	if err == nil {
		err = mount.All(harmless(mounts), at)
	}
	if err != nil {
		return fmt.Errorf("mount image %s: %w", img.Name, err)
	}
	return nil
}

// harmless returns mounts where an image's devices are none: its volume is shown to pods, which may let users of the host look
// into them.
func harmless(mounts []mount.Mount) []mount.Mount {
	out := slices.Clone(mounts)
	for i := range out {
		out[i].Options = append(slices.Clone(out[i].Options), "nodev")
	}
	return out
}

// Release gives up what Mount keeps, once it is not mounted any more. It is no error if there is nothing.
func (i *Images) Release(ctx context.Context, name string) error {
	err := i.client.SnapshotService(i.options.Snapshotter).Remove(i.inNamespace(ctx), volumePrefix+name)
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("release the image of volume %s: %w", name, err)
	}
	return nil
}

// inVolumes returns how many volumes show an image.
func (i *Images) inVolumes(ctx context.Context, name string) (n int, err error) {
	err = i.client.SnapshotService(i.options.Snapshotter).Walk(ctx, func(context.Context, snapshots.Info) error {
		n++
		return nil
	}, fmt.Sprintf("labels.%q==%q", labelVolume, name))
	return n, err
}
