package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/errdefs"

	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/runtime/oci"
	"github.com/jobd/jobd/runtime/shard/protocol"
	"github.com/jobd/jobd/runtime/untrusted"
)

// fillVolumes copies into the volumes that an image declares what it has at their paths. A start that is repeated leaves
// alone what was filled: the container may run. It takes as long as the volumes are large, and ends early when the start
// is called off.
func (r *Runtime) fillVolumes(ctx context.Context, c runtime.Container, held *container, rootfs []protocol.Mount) error {
	declared, err := oci.DeclaredVolumes(c.Spec)
	if err != nil || len(declared) == 0 {
		return err
	}
	filling, cancel := context.WithCancel(ctx)
	defer cancel()
	r.mu.Lock()
	held.stopFilling = cancel
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		held.stopFilling = nil
		r.mu.Unlock()
	}()
	mounts := make([]mount.Mount, len(rootfs))
	for i, m := range rootfs {
		mounts[i] = mount.Mount{Type: m.Type, Source: m.Source, Target: m.Target, Options: m.Options}
	}
	root, err := openImage(r.config.State, mounts)
	if err != nil {
		return err
	}
	if root != nil {
		defer root.Close()
	}
	for dir, place := range declared {
		err := fillVolume(filling, root, place, dir)
		if err != nil && filling.Err() != nil && ctx.Err() == nil {
			return fmt.Errorf("it was called off: %w", errdefs.ErrAborted)
		}
		if err != nil {
			return fmt.Errorf("volume of the image at %s: %w", place, err)
		}
	}
	return nil
}

// fillVolume fills one directory, in which a killed daemon may have left a part. Without a root there is nothing to copy.
func fillVolume(ctx context.Context, root *os.File, place, dir string) error {
	mark := dir + oci.FilledMark
	if _, err := os.Lstat(mark); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := untrusted.Empty(ctx, dir); err != nil {
		return err
	}
	if root != nil {
		from, err := untrusted.OpenIn(root, place, untrusted.Root)
		if err == nil {
			defer from.Close()
			err = copyDirectory(ctx, from, dir)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(err, untrusted.Empty(ctx, dir)) // the disk may be full
		}
	}
	crash.At("declared-volume.filled")
	return os.Symlink(place, mark)
}

func copyDirectory(ctx context.Context, from *os.File, dir string) error {
	info, err := from.Stat()
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("the image has a file there, not a directory: %w", errdefs.ErrFailedPrecondition)
	}
	if err := untrusted.Copy(ctx, from, dir); err != nil {
		return fmt.Errorf("fill %s: %w", filepath.Base(dir), err)
	}
	return nil
}
