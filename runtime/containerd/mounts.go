package containerd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/moby/sys/mountinfo"

	"github.com/jobd/jobd/internal/layout"
	"github.com/jobd/jobd/internal/mountlist"
)

// KeepMountsIn sets the directory of containerd's temporary mounts, those of layers that it unpacks, to one below a
// state directory instead of the host's /tmp, and unmounts what an earlier process that was killed has left there. The
// setting is process-wide.
func KeepMountsIn(state string) error {
	dir := layout.State(state).Containerd()
	err := os.MkdirAll(dir, 0o711)
	if err == nil {
		err = mount.SetTempMountLocation(filepath.Join(dir, "mounts"))
	}
	if err == nil {
		err = unmountLeft(filepath.Join(dir, "mounts"))
	}
	if err != nil {
		return fmt.Errorf("mounts of containerd: %w", err)
	}
	return nil
}

// unmountLeft unmounts what is mounted in a directory, as mount.CleanupTempMounts does, which does not get through every list of mounts.
func unmountLeft(dir string) error {
	dir, err := mount.CanonicalizePath(dir)
	if err != nil {
		return err
	}
	left, err := mountlist.Get(mountinfo.PrefixFilter(dir))
	if err != nil {
		return err
	}
	var failed []error
	for _, m := range slices.Backward(left) { // in the order of mounting
		err := mount.UnmountAll(m.Mountpoint, 0)
		if err == nil {
			err = os.Remove(m.Mountpoint)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}
