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
// be made is left to the OCI runtime, which says what is wrong.
func makeMountPoints(rootfs string, binds []protocol.Bind, own *namespace) {
	if len(binds) == 0 {
		return
	}
	root, err := unix.Open(rootfs, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(root)
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	for _, b := range binds {
		fd, err := unix.Openat2(root, b.Destination, &how)
		if err == nil {
			unix.Close(fd)
		}
		if err != unix.ENOENT {
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
