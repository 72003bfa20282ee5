// Package untrusted reads, measures and removes what a pod or an image has filled. Anything may lie there under any
// name: a symlink to a file of the host, a FIFO that nobody writes to, a device whose driver does something when root
// opens it, a file without end, one that was made immutable, and directories nested by the ten thousand. It takes a
// directory that the caller vouches for, opens nothing but plain files and directories inside it, and needs no more
// memory, stack or descriptors for a deep tree than for a flat one.
package untrusted

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// Scope determines what a symlink in a tree means.
type Scope uint64

const (
	// Root treats the tree as a root file system: an absolute symlink, and any number of "..", stay inside it.
	Root Scope = unix.RESOLVE_IN_ROOT
	// Beneath refuses every path that would lead out of the tree, absolute symlinks included.
	Beneath Scope = unix.RESOLVE_BENEATH
)

var errOutside = errors.New("leads out of the directory")

// Read returns the content of a plain file. The error is fs.ErrNotExist for what does not exist, ErrFailedPrecondition
// for what is not a plain file, and ErrOutOfRange for one with more than most bytes.
func Read(dir, path string, scope Scope, most int64) ([]byte, error) {
	f, err := Open(dir, path, scope)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > most {
		return nil, fmt.Errorf("%s has more than %d bytes: %w", path, most, errdefs.ErrOutOfRange)
	}
	return content, nil
}

// Open opens a plain file for reading. The error is fs.ErrNotExist for what does not exist, and ErrFailedPrecondition
// for what is not a plain file: that is found out before anything is opened that has a driver or a peer.
func Open(dir, path string, scope Scope) (*os.File, error) {
	in, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(in)
	return open(in, path, &unix.OpenHow{Resolve: uint64(scope)}, false)
}

// OpenIn is Open for an open directory, and also opens directories.
func OpenIn(dir *os.File, path string, scope Scope) (*os.File, error) {
	return open(int(dir.Fd()), path, &unix.OpenHow{Resolve: uint64(scope)}, true)
}

// OpenAt opens a plain file or a directory that has a name in an open directory, as Walk passes them. The errors are those
// of Open; a symlink is no plain file.
func OpenAt(dir int, name string) (*os.File, error) {
	return open(dir, name, &unix.OpenHow{Flags: unix.O_NOFOLLOW, Resolve: uint64(Beneath)}, true)
}

func open(in int, path string, how *unix.OpenHow, dirs bool) (*os.File, error) {
	how.Flags |= unix.O_PATH | unix.O_CLOEXEC
	how.Resolve |= unix.RESOLVE_NO_MAGICLINKS
	place, err := unix.Openat2(in, filepath.Clean(path), how)
	// something was mounted or renamed on the host meanwhile
	for tries := 1; err == unix.EAGAIN && tries < 100; tries++ {
		place, err = unix.Openat2(in, filepath.Clean(path), how)
	}
	if errors.Is(err, unix.ENOTDIR) {
		err = fs.ErrNotExist // something on the way is no directory
	}
	if errors.Is(err, unix.EXDEV) {
		err = errOutside
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(place)
	var is unix.Stat_t
	if err := unix.Fstat(place, &is); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	switch kind := is.Mode & unix.S_IFMT; {
	case kind == unix.S_IFREG, kind == unix.S_IFDIR && dirs:
	case dirs:
		return nil, fmt.Errorf("%s is neither a file nor a directory: %w", path, errdefs.ErrFailedPrecondition)
	default:
		return nil, fmt.Errorf("%s is no plain file: %w", path, errdefs.ErrFailedPrecondition)
	}
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(place), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}
