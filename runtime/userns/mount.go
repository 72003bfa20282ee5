package userns

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// MountOptions say how a mount is copied.
type MountOptions struct {
	// Recursive copies what is mounted below as well, with its ids unchanged: only the top is mapped.
	Recursive bool
	// Attributes are those that the top of the copy has beside those of the original (unix.MOUNT_ATTR_RDONLY and others).
	Attributes uint64
}

// CopyMount copies the mount at a path so that it shows the owners of files as an open user namespace has them, and returns the
// descriptor of the copy: what belongs to user 0 on the disk belongs to the root of the namespace there, and what that root
// creates belongs to user 0 on the disk (mount_setattr(2), MOUNT_ATTR_IDMAP). The copy is in no mount namespace until it is
// moved to a place. The error is EINVAL where the file system or the kernel (before 5.12) does not support such mounts.
func CopyMount(path string, namespace *os.File, o MountOptions) (int, error) {
	flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC)
	if o.Recursive {
		flags |= unix.AT_RECURSIVE
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, path, flags)
	if err != nil {
		return -1, fmt.Errorf("copy the mount of %s: %w", path, err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP | o.Attributes, Userns_fd: uint64(namespace.Fd())}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		unix.Close(tree)
		return -1, fmt.Errorf("map the ids of files below %s: %w", path, err)
	}
	return tree, nil
}

// Mount mounts such a copy at a place in the calling thread's mount namespace.
func Mount(path, place string, namespace *os.File, o MountOptions) error {
	tree, err := CopyMount(path, namespace, o)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, place, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", place, err)
	}
	return nil
}
