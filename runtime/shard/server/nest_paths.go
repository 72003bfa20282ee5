package server

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/outside"
	"github.com/jobd/jobd/runtime/shard/protocol"
)

// Where the paths of mounts and devices lead, before anything is mounted there.

// find returns the tree that a path of the container leads into, and the rest of the path, or else where in the root file system it leads.
// Of the image's symlinks all are followed; those in a tree are left to within.
func (n *nesting) find(destination string, inKernels bool) (in *tree, below, place string, err error) {
	const maxLinks = 40 // as for the kernel
	at, left, links := "/", strings.Split(path.Clean("/"+destination), "/"), 0
	for len(left) > 0 {
		name := left[0]
		left = left[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		at = path.Join(at, name)
		if t := n.topAt(at, inKernels); t != nil {
			return t, path.Join(append([]string{"."}, left...)...), at, nil
		}
		if inKernels {
			continue
		}
		link, err := n.link(at)
		if err != nil {
			return nil, "", "", err
		}
		if link == "" {
			continue
		}
		if links++; links > maxLinks {
			return nil, "", "", unix.ELOOP
		}
		if at = path.Dir(at); path.IsAbs(link) {
			at = "/"
		}
		left = append(strings.Split(link, "/"), left...)
	}
	return nil, "", at, nil
}

// topAt returns the tree at a place of the root file system: the last one, which covers the others.
func (n *nesting) topAt(place string, ofKernel bool) *tree {
	for _, t := range slices.Backward(n.trees) {
		if t.place == place && t.ofKernel == ofKernel {
			return t
		}
	}
	return nil
}

// link returns where a symlink of the image leads; empty if there is none. No symlink is on the way to it.
func (n *nesting) link(at string) (string, error) {
	fd, err := unix.Openat2(n.root, at[1:], &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return "", nil // nothing is there
	}
	defer unix.Close(fd)
	to := make([]byte, unix.PathMax)
	switch got, err := unix.Readlinkat(fd, "", to); {
	case err == unix.ENOENT: // the kernel's word for what is no symlink
		return "", nil
	case err != nil:
		return "", os.NewSyscallError("readlinkat", err)
	default:
		return string(to[:got]), nil
	}
}

// checkOwn refuses an image whose symlink for /dev, /proc or /sys leads into a volume: the OCI runtime would mount what is its own there.
func (n *nesting) checkOwn(m specs.Mount) error {
	if !ofKernel(m.Destination) || path.Dir(path.Clean(m.Destination)) != "/" {
		return nil
	}
	in, below, _, err := n.find(m.Destination, false)
	if err == nil && in != nil && below != "." {
		err = fmt.Errorf("a symlink of the image leads into the volume at %s: %w", n.mounts[in.of].Destination, errdefs.ErrInvalidArgument)
	}
	return err
}

// checkDevice refuses a device that the OCI runtime would have to make in a volume.
func (n *nesting) checkDevice(d specs.LinuxDevice) error {
	in, below, _, err := n.find(d.Path, ofKernel(d.Path))
	if err != nil || in == nil {
		return err
	}
	source, err := unix.Open(n.mounts[in.of].Source, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("open", err)
	}
	defer unix.Close(source)
	if fd, err := outside.Open(source, below, unix.RESOLVE_BENEATH); err == nil {
		defer unix.Close(fd)
		var is unix.Stat_t
		if err := unix.Fstat(fd, &is); err == nil && is.Rdev == unix.Mkdev(uint32(d.Major), uint32(d.Minor)) && is.Mode&unix.S_IFMT == kindOf(d) {
			return nil
		}
	}
	return fmt.Errorf("its place is in the volume at %s: %w", n.mounts[in.of].Destination, errdefs.ErrInvalidArgument)
}

// kindOf returns the kind of file that a device is.
func kindOf(d specs.LinuxDevice) uint32 {
	switch d.Type {
	case "b":
		return unix.S_IFBLK
	case "p":
		return unix.S_IFIFO
	}
	return unix.S_IFCHR
}

// hidden reports whether something that is no file of the host is mounted later between a tree and a mount in it, as /dev/shm in the host's
// /dev: it would hide the mount.
func (n *nesting) hidden(t *tree, of int) bool {
	return slices.ContainsFunc(n.mounts[:of], func(m specs.Mount) bool {
		return !protocol.IsBind(m) && inside(path.Clean(m.Destination), path.Clean(n.mounts[t.of].Destination)) &&
			(path.Clean(n.mounts[of].Destination) == path.Clean(m.Destination) || inside(path.Clean(n.mounts[of].Destination), path.Clean(m.Destination)))
	})
}
