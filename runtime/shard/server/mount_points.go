package server

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cyphar/filepath-securejoin"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/shard/protocol"
)

// makeMountPoints makes the directories to which symlinks of an image lead, at which something of the host's is going to be
// mounted. crun makes a mount point that is missing, but not one at, or below, a symlink to nothing; runc does. In the root
// file system, which is mounted and which nothing uses yet, symlinks mean what they mean in the container. Whatever cannot
// be made is left to the OCI runtime, which says what is wrong. It reports whether symlinks of the image lead to any mount point at all.
func makeMountPoints(rootfs string, binds []protocol.Bind, own *namespace) (linked bool) {
	if len(binds) == 0 {
		return false
	}
	root, err := unix.Open(rootfs, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(root)
	open := func(path string, resolve uint64) error {
		fd, err := unix.Openat2(root, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | resolve})
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
	for _, kernels := range []string{"dev", "proc", "sys"} {
		linked = linked || open(kernels, unix.RESOLVE_NO_SYMLINKS) == unix.ELOOP
	}
	for _, b := range binds {
		if open(b.Destination, unix.RESOLVE_NO_SYMLINKS) != unix.ELOOP {
			continue
		}
		linked = true
		if open(b.Destination, unix.RESOLVE_NO_MAGICLINKS) != unix.ENOENT {
			continue
		}
		place, err := securejoin.SecureJoin(rootfs, b.Destination)
		if err != nil || place == filepath.Join(rootfs, b.Destination) {
			continue // without a symlink on the way
		}
		if info, err := os.Stat(b.Source); err != nil || !info.IsDir() {
			place = filepath.Dir(place)
		}
		makeDirectories(rootfs, place, own)
	}
	return linked
}

// makeDirectories makes a directory below a root, and those above it, for the root of a user namespace, which is nil for the
// host's. No part of the path is a symlink.
func makeDirectories(root, dir string, own *namespace) {
	below, err := filepath.Rel(root, dir)
	if err != nil {
		return
	}
	at := root
	for name := range strings.SplitSeq(below, "/") {
		at = filepath.Join(at, name)
		err := os.Mkdir(at, 0o755)
		if err == nil && own != nil {
			err = os.Lchown(at, int(own.root), int(own.root))
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return
		}
	}
}
