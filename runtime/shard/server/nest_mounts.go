package server

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/outside"
)

// How volumes get into volumes.

// isDirectory asks the file system of a path.
func isDirectory(path string) (bool, error) {
	var is unix.Stat_t
	if err := unix.Stat(path, &is); err != nil {
		return false, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return is.Mode&unix.S_IFMT == unix.S_IFDIR, nil
}

// mountAt mounts a tree at an open directory or file.
func (n *nesting) mountAt(t *tree, point int) error {
	fd, err := n.clone(n.mounts[t.of])
	if err != nil {
		return err
	}
	if err = unix.MoveMount(fd, "", point, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err == nil {
		t.id, _, err = mountOf(fd)
	} else if err == unix.EINVAL {
		err = unix.ENOTDIR // one is a directory, and the other is not
	}
	if err != nil {
		unix.Close(fd)
		return fmt.Errorf("mount %s: %w", n.mounts[t.of].Source, err)
	}
	t.fd, n.gone[t.of] = fd, true
	return nil
}

// mountInRoot mounts a tree in the root file system.
func (n *nesting) mountInRoot(t *tree) error {
	open := func() (int, error) {
		return unix.Openat2(n.root, t.place[1:], &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
		})
	}
	point, err := open()
	if err == unix.ENOENT {
		if err = n.makeInRoot(t); err == nil {
			point, err = open()
		}
	}
	if err != nil {
		return err
	}
	defer unix.Close(point)
	return n.mountAt(t, point)
}

// makeInRoot makes the mount point of a tree, as the OCI runtime would.
func (n *nesting) makeInRoot(t *tree) error {
	directory, err := isDirectory(n.mounts[t.of].Source)
	if err != nil {
		return err
	}
	var own *namespace
	if n.mapped != nil {
		own = &namespace{root: n.mapped.Root}
	}
	at := filepath.Join(n.rootfs, t.place)
	if directory {
		makeDirectories(n.rootfs, at, own)
		return nil
	}
	makeDirectories(n.rootfs, filepath.Dir(at), own)
	file, err := os.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o755)
	if err != nil {
		return err
	}
	defer file.Close()
	return n.mapped.own(int(file.Fd()))
}

// mountApart mounts a tree where the OCI runtime is told to look for it, unless it is.
func (n *nesting) mountApart(t *tree) error {
	if t.fd >= 0 {
		return nil
	}
	directory, err := isDirectory(n.mounts[t.of].Source)
	if err != nil {
		return err
	}
	at, err := n.places(t.of, directory)
	if err != nil {
		return err
	}
	point, err := unix.Open(at, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: at, Err: err}
	}
	defer unix.Close(point)
	if err := n.mountAt(t, point); err != nil {
		return err
	}
	t.at = at
	delete(n.gone, t.of)
	return nil
}

// clone copies what a mount of the spec shows, with the options that it asks for. The copy is not mounted yet.
func (n *nesting) clone(m specs.Mount) (fd int, err error) {
	top, all, err := attributes(m.Options)
	if err != nil {
		return -1, err
	}
	flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC)
	if slices.Contains(m.Options, "rbind") {
		flags |= unix.AT_RECURSIVE
	}
	if fd, err = unix.OpenTree(unix.AT_FDCWD, m.Source, flags); err != nil {
		return -1, fmt.Errorf("copy the mount of %s: %w", m.Source, err)
	}
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &all)
	if err == nil {
		err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &top)
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("options of the mount of %s: %w", m.Source, err)
	}
	return fd, nil
}

// attributes returns what options say of a mount, and of all that is mounted below it. What the host forbids stays forbidden. An option
// that is not known is an error: nobody else would look at it.
func attributes(options []string) (top, all unix.MountAttr, err error) {
	top.Attr_set = restrictions(options)
	for _, option := range options {
		switch option {
		case "bind", "rbind", "rw", "suid", "dev", "exec", "atime", "diratime", "relatime", "nosuid", "nodev", "noexec", "shared", "rshared":
		case "ro":
			top.Attr_set |= unix.MOUNT_ATTR_RDONLY
		case "rro":
			all.Attr_set |= unix.MOUNT_ATTR_RDONLY
		case "noatime":
			top.Attr_set, top.Attr_clr = top.Attr_set|unix.MOUNT_ATTR_NOATIME, unix.MOUNT_ATTR__ATIME
		case "nodiratime":
			top.Attr_set |= unix.MOUNT_ATTR_NODIRATIME
		case "private", "rprivate":
			all.Propagation = unix.MS_PRIVATE
		case "slave", "rslave":
			all.Propagation = unix.MS_SLAVE
		default:
			return top, all, fmt.Errorf("option %s is not known in a volume: %w", option, errdefs.ErrInvalidArgument)
		}
	}
	return top, all, nil
}

// within finds a path in a tree, or in one that lies in it, and makes what is missing of it. No symlink leads out of the tree that it is in.
// It returns -1 if the OCI runtime has to do it.
func (n *nesting) within(t *tree, below string, directory bool) (int, error) {
	at, err := unix.FcntlInt(uintptr(t.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("fcntl", err)
	}
	names := strings.Split(below, "/")
	for i, way := 0, ""; i < len(names); i++ {
		way = path.Join(way, names[i])
		fd, err := outside.Open(t.fd, way, unix.RESOLVE_BENEATH)
		if errors.Is(err, unix.ENOENT) {
			if err = n.make(t, at, names[i], directory || i < len(names)-1); err == nil {
				fd, err = outside.Open(t.fd, way, unix.RESOLVE_BENEATH)
			}
		}
		unix.Close(at)
		if errors.Is(err, unix.EXDEV) {
			return -1, fmt.Errorf("a symlink leads out of the volume at %s: %w", n.mounts[t.of].Destination, errdefs.ErrInvalidArgument)
		} else if err != nil {
			return -1, fmt.Errorf("%s in the volume at %s: %w", way, n.mounts[t.of].Destination, err)
		}
		at = fd
		id, top, err := mountOf(at)
		if err != nil {
			unix.Close(at)
			return -1, err
		}
		if j := slices.IndexFunc(n.trees, func(t *tree) bool { return t.fd >= 0 && t.id == id }); j >= 0 && top {
			if t, way = n.trees[j], ""; n.isLeft(t) {
				unix.Close(at)
				return -1, nil
			}
		}
	}
	return at, nil
}

// make makes a directory or a file in an open directory of a tree, unless something of that name is there. This is done where the tree has
// been copied from: the copy may be for reading only, and have the ids of a user namespace.
func (n *nesting) make(t *tree, above int, name string, directory bool) error {
	top, err := os.Readlink(descriptor(t.fd))
	if err != nil {
		return err
	}
	here, err := os.Readlink(descriptor(above))
	if err != nil {
		return err
	}
	below, err := filepath.Rel(top, here)
	if err != nil {
		return err
	}
	source, err := unix.Open(n.source(t), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("open", err)
	}
	defer unix.Close(source)
	dir, err := outside.Open(source, below, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if directory {
		err = unix.Mkdirat(dir, name, 0o755)
	} else {
		var fd int
		if fd, err = unix.Openat(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644); err == nil {
			return unix.Close(fd)
		}
	}
	if err == unix.EEXIST {
		return nil
	}
	return err
}

// source returns where the files of a tree are with the ids that they have on the disk.
func (n *nesting) source(t *tree) string {
	from := n.mounts[t.of].Source
	if n.mapped != nil {
		for _, m := range n.mapped.Mounts {
			if m.Place == from {
				return m.Source
			}
		}
	}
	return from
}

// mountOf returns the number of the mount that an open file is on, and whether the file is the root of that.
func mountOf(fd int) (id uint64, root bool, err error) {
	var is unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &is); err != nil {
		return 0, false, os.NewSyscallError("statx", err)
	}
	return is.Mnt_id, is.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}

// descriptor returns the name of an open file in /proc.
func descriptor(fd int) string { return "/proc/thread-self/fd/" + strconv.Itoa(fd) }
