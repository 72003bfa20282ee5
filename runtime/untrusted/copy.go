package untrusted

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// longestPath is how many bytes a path in a tree that is copied has at most: the kernel takes no longer ones.
	longestPath = unix.PathMax - 1
	// copyAtOnce is how much is copied before the context is looked at again.
	copyAtOnce = 16 << 20
)

// Copy copies what is in an open directory into an empty one that nobody else writes to, with all owners, modes, hard links
// and extended attributes, and gives the directory those of the first one. Symlinks are copied as they are, devices and
// FIFOs made anew: none of them is opened. What is mounted in the tree is left out. Labels of SELinux are not copied.
func Copy(ctx context.Context, from *os.File, to string) error {
	top, err := unix.Open(to, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: to, Err: err}
	}
	defer unix.Close(top)
	c := copier{ctx: ctx, top: top, dir: -1, linked: map[uint64]string{}}
	defer c.leave()
	return Walk(from, longestPath, func(dir int, name, below string, is *unix.Stat_t) error {
		if err := c.copy(dir, name, below, is); err != nil {
			return fmt.Errorf("copy %.200q: %w", below, err)
		}
		return nil
	})
}

// copier copies one tree.
type copier struct {
	ctx    context.Context
	top    int
	at     string // the directory below top that is open
	dir    int    // its descriptor; -1: none is
	linked map[uint64]string
}

func (c *copier) leave() {
	if c.dir >= 0 {
		unix.Close(c.dir)
	}
	c.dir = -1
}

// enter opens a directory that was copied.
func (c *copier) enter(below string) (err error) {
	if c.dir >= 0 && c.at == below {
		return nil
	}
	c.leave()
	c.at = below
	c.dir, err = unix.Openat2(c.top, below, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	return err
}

func (c *copier) copy(from int, name, below string, is *unix.Stat_t) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if err := c.enter(path.Dir(below)); err != nil {
		return err
	}
	kind := is.Mode & unix.S_IFMT
	if kind != unix.S_IFDIR && is.Nlink > 1 {
		if first, ok := c.linked[is.Ino]; ok {
			return unix.Linkat(c.top, first, c.dir, name, 0)
		}
		c.linked[is.Ino] = below
	}
	var err error
	switch {
	case below == ".": // it is there
	case kind == unix.S_IFDIR:
		err = unix.Mkdirat(c.dir, name, 0o700)
	case kind == unix.S_IFREG:
		err = c.content(from, name)
	case kind == unix.S_IFLNK:
		err = c.symlink(from, name)
	default:
		err = unix.Mknodat(c.dir, name, kind|0o600, int(is.Rdev))
	}
	if err != nil {
		return err
	}
	return c.attributes(from, name, is)
}

func (c *copier) content(from int, name string) error {
	in, err := OpenAt(from, name)
	if err != nil {
		return err
	}
	defer in.Close()
	fd, err := unix.Openat(c.dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	out := os.NewFile(uintptr(fd), name)
	for err == nil {
		if err = c.ctx.Err(); err == nil {
			_, err = io.CopyN(out, in, copyAtOnce)
		}
	}
	if err == io.EOF {
		err = nil
	}
	return errors.Join(err, out.Close())
}

func (c *copier) symlink(from int, name string) error {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(from, name, target)
	if err != nil {
		return err
	}
	return unix.Symlinkat(string(target[:n]), c.dir, name)
}

// attributes gives a copy the owner, mode, extended attributes and times of what it was made from, in this order: the
// kernel takes setuid and capabilities from a file whose owner changes. Directories get no times, since they are not
// filled yet.
func (c *copier) attributes(from int, name string, is *unix.Stat_t) error {
	if err := unix.Fchownat(c.dir, name, int(is.Uid), int(is.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	kind := is.Mode & unix.S_IFMT
	if kind != unix.S_IFLNK {
		if err := unix.Fchmodat(c.dir, name, is.Mode&0o7777, 0); err != nil {
			return err
		}
	}
	if err := copyAttributes(inDir(from, name), inDir(c.dir, name)); err != nil {
		return err
	}
	if kind == unix.S_IFDIR {
		return nil
	}
	return unix.UtimesNanoAt(c.dir, name, []unix.Timespec{is.Atim, is.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}

// inDir returns a path of a name in an open directory, for calls that take no descriptor of one.
func inDir(dir int, name string) string { return "/proc/self/fd/" + strconv.Itoa(dir) + "/" + name }

// copyAttributes copies extended attributes, where the file system of the copy has any.
func copyAttributes(from, to string) error {
	size, err := unix.Llistxattr(from, nil)
	if size == 0 || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	names := make([]byte, max(size, 0))
	if err == nil {
		size, err = unix.Llistxattr(from, names)
	}
	if err != nil {
		return os.NewSyscallError("listxattr", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(names[:size]), "\x00"), "\x00") {
		// Overlay's own say how layers make up a tree.
		if name == "security.selinux" || strings.HasPrefix(name, "trusted.overlay.") || strings.HasPrefix(name, "user.overlay.") {
			continue
		}
		value := make([]byte, 64<<10) // the most that there can be
		n, err := unix.Lgetxattr(from, name, value)
		if err == nil {
			err = unix.Lsetxattr(to, name, value[:n], 0)
		}
		if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
			return os.NewSyscallError("extended attribute "+name, err)
		}
	}
	return nil
}
