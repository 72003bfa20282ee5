package containerd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containerd/containerd/v2/core/mount"

	"github.com/jobd/jobd/internal/layout"
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
		var left []error
		left, err = mount.CleanupTempMounts(0)
		err = errors.Join(append(left, err)...)
	}
	if err != nil {
		return fmt.Errorf("mounts of containerd: %w", err)
	}
	return nil
}
