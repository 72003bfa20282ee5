package volume

import (
	"fmt"
	"os"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/mountlist"
	"github.com/jobd/jobd/runtime/userns"
)

// mappable reports whether a volume can be mounted with the ids of a pod's own user namespace (PodSpec.HostUsers), which
// its file system has to support.
func mappable(path string, namespace *os.File) error {
	tree, err := userns.CopyMount(path, namespace, userns.MountOptions{})
	if err == nil {
		return unix.Close(tree)
	}
	kind := "unknown type"
	if on, findErr := newHostMounts(mountlist.Get).of(path); findErr == nil {
		kind = "type " + on.FSType
	}
	return fmt.Errorf("%s is on a file system of %s, whose files cannot have the users of a pod's own user namespace "+
		"(hostUsers: true does without): %w: %w", path, kind, errdefs.ErrNotImplemented, err)
}
