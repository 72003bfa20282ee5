// Package idmap makes copies of mounts that show the owners of files as a user namespace has them: what belongs to user
// 0 on the disk belongs to the root of the namespace there, and what that root creates belongs to user 0 on the disk
// (mount_setattr(2), MOUNT_ATTR_IDMAP). The copies are in no mount namespace until they are moved to a place.
package idmap

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Options say how a mount is copied.
type Options struct {
	// Recursive copies what is mounted below as well, with its ids unchanged: only the top is mapped.
	Recursive bool
	// Attributes are those that the top of the copy has beside those of the original (unix.MOUNT_ATTR_RDONLY and others).
	Attributes uint64
}

// Copy copies the mount at a path with the ids of an open user namespace, and returns the descriptor of the copy. The
// error is EINVAL where the file system or the kernel (before 5.12) does not support such mounts.
func Copy(path string, namespace *os.File, o Options) (int, error) {
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

// Mount mounts a copy at a place in the calling thread's mount namespace.
func Mount(path, place string, namespace *os.File, o Options) error {
	tree, err := Copy(path, namespace, o)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, place, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", place, err)
	}
	return nil
}
