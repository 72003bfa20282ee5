// Package outside finds files of the host whose paths its users may change, without opening them for reading or writing.
//
// It enters no file system that a process of a user answers for (FUSE). Such a process may never answer, and until it does the kernel
// keeps whoever has asked, and does not even end it: a daemon that is killed would hold its lock and its sockets, and no other one could
// begin. To look at the root of such a file system, which is in the kernel, asks nobody.
package outside

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/mountlist"
)

const (
	// maxLinks is how many symlinks a path may lead through, as to the kernel.
	maxLinks = 40
	// maxSteps is how many names are looked up for a path, symlinks included.
	maxSteps = 10_000
	// maxTries is how often the kernel is asked while something of the path is being renamed.
	maxTries = 100
)

// Open finds a path below an open directory (O_PATH), as openat2 does with RESOLVE_BENEATH or RESOLVE_IN_ROOT, one of which has to be
// given, and perhaps RESOLVE_NO_SYMLINKS. What is on a file system of a user is ErrPermissionDenied.
func Open(dir int, path string, resolve uint64) (int, error) {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolve | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(dir, path, how)
	for tries := 1; err == unix.EAGAIN && tries < maxTries; tries++ { // something was mounted or renamed on the host meanwhile
		fd, err = unix.Openat2(dir, path, how)
	}
	if err != unix.EXDEV {
		return fd, err
	}
	w := &walk{top: dir, resolve: resolve, at: -1}
	defer w.begin()
	return w.to(path)
}

// walk goes from name to name, since nothing else says what is mounted on the way before it is entered.
type walk struct {
	top     int
	resolve uint64
	at      int      // the place reached; -1: the top
	names   []string // which lead there from the top, with no symlink among them
}

// begin goes back to the top.
func (w *walk) begin() {
	if w.at >= 0 {
		unix.Close(w.at)
	}
	w.at, w.names = -1, nil
}

func (w *walk) here() int {
	if w.at >= 0 {
		return w.at
	}
	return w.top
}

func (w *walk) to(path string) (int, error) {
	left, links := strings.Split(path, "/"), 0
	for steps := 0; len(left) > 0; steps++ {
		if steps == maxSteps {
			return -1, unix.ENAMETOOLONG
		}
		name := left[0]
		left = left[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			above, err := w.above()
			if err != nil {
				return -1, err
			}
			left = append(above, left...)
			continue
		}
		fd, link, err := step(w.here(), name, len(left) > 0)
		switch {
		case err != nil:
			return -1, err
		case link == "":
			names := append(w.names, name)
			w.begin()
			w.at, w.names = fd, names
			continue
		}
		if links++; links > maxLinks || w.resolve&unix.RESOLVE_NO_SYMLINKS != 0 {
			return -1, unix.ELOOP
		}
		if strings.HasPrefix(link, "/") {
			if w.resolve&unix.RESOLVE_BENEATH != 0 {
				return -1, unix.EXDEV
			}
			w.begin()
		}
		left = append(strings.Split(link, "/"), left...)
	}
	return unix.FcntlInt(uintptr(w.here()), unix.F_DUPFD_CLOEXEC, 0)
}

// above goes back to the top, and returns the way from there to the directory above.
func (w *walk) above() ([]string, error) {
	if len(w.names) == 0 && w.resolve&unix.RESOLVE_BENEATH != 0 {
		return nil, unix.EXDEV
	}
	way := slices.Clone(w.names[:max(len(w.names)-1, 0)])
	w.begin()
	return way, nil
}

// step opens a name in a directory, or says where the symlink of that name leads. on says that the way goes on from there.
func step(dir int, name string, on bool) (fd int, link string, err error) {
	flags := unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	if on { // what is mounted on demand is mounted only for this
		fd, err = enter(dir, name, flags|unix.O_DIRECTORY)
		if err != unix.ENOTDIR {
			return fd, "", err
		}
	}
	if fd, err = enter(dir, name, flags); err != nil {
		return -1, "", err
	}
	var is unix.Statx_t
	if err = unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &is); err == nil && is.Mode&unix.S_IFMT != unix.S_IFLNK {
		return fd, "", nil
	}
	defer unix.Close(fd)
	if err != nil {
		return -1, "", err
	}
	to := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", to)
	switch {
	case err != nil:
		return -1, "", err
	case n == 0:
		return -1, "", unix.ENOENT
	}
	return -1, string(to[:n]), nil
}

// enter opens a name in a directory, if what is mounted there may be entered.
func enter(dir int, name string, flags int) (int, error) {
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_XDEV})
	if err != unix.EXDEV {
		return fd, err
	}
	if fd, err = unix.Openat(dir, name, flags, 0); err != nil {
		return -1, err
	}
	if err := check(fd); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// check returns an error if what is open is on a file system that a process of a user answers for.
func check(fd int) error {
	var is unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &is); err != nil {
		return err
	}
	if is.Mask&unix.STATX_MNT_ID == 0 {
		return nil // Linux before 5.8 does not say what is mounted there
	}
	found, err := mountlist.Get(func(m *mountinfo.Info) (skip, stop bool) {
		here := uint64(m.ID) == is.Mnt_id
		return !here, here
	})
	switch {
	case err != nil:
		return err
	case len(found) == 0: // it was unmounted meanwhile
		return unix.ESTALE
	}
	if user := answers(found[0]); user != 0 {
		return fmt.Errorf("a process of user %d answers for what is mounted at %s (%s), where jobd does not go: "+
			"mount the directory that it is in: %w", user, found[0].Mountpoint, found[0].FSType, errdefs.ErrPermissionDenied)
	}
	return nil
}

// answers returns the user whose process answers for a file system; root, whom that is left to, for all others.
func answers(m *mountinfo.Info) uint32 {
	kind, _, _ := strings.Cut(m.FSType, ".")
	if kind != "fuse" && kind != "fuseblk" {
		return 0
	}
	for option := range strings.SplitSeq(m.VFSOptions, ",") {
		if id, ok := strings.CutPrefix(option, "user_id="); ok {
			user, _ := strconv.ParseUint(id, 10, 32)
			return uint32(user)
		}
	}
	return 0
}
