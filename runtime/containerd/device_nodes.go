package containerd

import (
	"context"
	"fmt"
	"os"

	"github.com/containerd/containerd/v2/core/diff"
	"github.com/containerd/containerd/v2/core/diff/apply"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/plugins"
	"github.com/containerd/containerd/v2/plugins/diff/walking"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/containerd/plugin"
	"github.com/containerd/plugin/registry"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/untrusted"
)

// unpacker is the name of the plugin by which images are unpacked. Others of containerd's require one of this name.
const unpacker = "walking"

func init() {
	registry.Register(&plugin.Registration{
		Type: plugins.DiffPlugin, ID: unpacker, Requires: []plugin.Type{plugins.MetadataPlugin, plugins.MountManagerPlugin},
		InitFn: func(ic *plugin.InitContext) (any, error) {
			db, err := ic.GetSingle(plugins.MetadataPlugin)
			if err != nil {
				return nil, err
			}
			manager, err := ic.GetSingle(plugins.MountManagerPlugin)
			if err != nil {
				return nil, err
			}
			ic.Meta.Platforms = append(ic.Meta.Platforms, platforms.DefaultSpec())
			content := db.(*metadata.DB).ContentStore()
			return struct {
				diff.Comparer
				diff.Applier
			}{
				walking.NewWalkingDiff(content),
				withoutDevices{apply.NewFileSystemApplierWithMountManager(content, manager.(mount.Manager))},
			}, nil
		},
	})
}

// withoutDevices unpacks layers without the devices in them. In its container no program may use them: those of /dev are made for
// each. But a user of the host who has the numbers of a process there could, by /proc/PID/root, and so read the host's disk.
type withoutDevices struct{ diff.Applier }

func (a withoutDevices) Apply(
	ctx context.Context, layer ocispec.Descriptor, mounts []mount.Mount, o ...diff.ApplyOpt,
) (ocispec.Descriptor, error) {
	applied, err := a.Applier.Apply(ctx, layer, mounts, o...)
	if err != nil {
		return applied, err
	}
	if len(mounts) != 1 {
		return applied, fmt.Errorf("layer %s: %d mounts: %w", layer.Digest, len(mounts), errdefs.ErrFailedPrecondition)
	}
	dir, overlay := mounts[0].Source, mounts[0].Type == "overlay"
	if overlay {
		dir, _, _ = overlayLayers(mounts[0])
	}
	if err := removeDevices(ctx, dir, overlay); err != nil {
		return applied, fmt.Errorf("devices of layer %s: %w", layer.Digest, err)
	}
	return applied, nil
}

// removeDevices removes the devices in a tree. Those of an overlay's layer leave a whiteout, so that they go on to cover what is below
// them.
func removeDevices(ctx context.Context, dir string, overlay bool) error {
	top, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer top.Close()
	some := false
	err = untrusted.Walk(top, 0, func(in int, name, _ string, is *unix.Stat_t) error {
		kind := is.Mode & unix.S_IFMT
		if kind != unix.S_IFBLK && (kind != unix.S_IFCHR || is.Rdev == 0) { // 0, 0 is a whiteout, and no device
			return ctx.Err()
		}
		some = true
		if err := unix.Unlinkat(in, name, 0); err != nil {
			return os.NewSyscallError("unlinkat", err)
		}
		if !overlay {
			return nil
		}
		return os.NewSyscallError("mknodat", unix.Mknodat(in, name, unix.S_IFCHR, 0))
	})
	if err != nil || !some {
		return err
	}
	return os.NewSyscallError("syncfs", unix.Syncfs(int(top.Fd())))
}
