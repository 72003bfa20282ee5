package untrusted

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// maxLevels is how deep a tree is entered: it takes one inode and its block for each level, and 24 bytes here.
const maxLevels = 1 << 20

// Visit calls a function for a directory and for all that is below it, however deep that is, but not for what is mounted
// there. It passes an open directory and a name in it, and what was found there; since then it may have been replaced by
// something else. What cannot be read is left out. It ends with the first error of the function, which it returns, or with
// ErrAborted where the tree was changed meanwhile so that the rest is not found.
func Visit(dir string, see func(dir int, name string, is *unix.Stat_t) error) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return (&walk{visit: func(dir int, name, _ string, is *unix.Stat_t) error { return see(dir, name, is) }}).tree(fd)
}

// Walk is Visit for callers that must not miss anything. It ends with the first error: that of the function, that of what
// cannot be read, or ErrAborted if the tree was changed so that the rest is not found. What is removed meanwhile is no error.
// The function also gets the path below the directory, which is "." for the directory itself; one with more than maxPath bytes
// is ErrOutOfRange. If maxPath is zero, paths are empty and have no limit. The order is that of the file system, with
// directories before what is in them.
func Walk(top *os.File, maxPath int, visit func(dir int, name, path string, is *unix.Stat_t) error) error {
	fd, err := unix.Openat(int(top.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: top.Name(), Err: err}
	}
	return (&walk{visit: visit, strict: true, maxPath: maxPath}).tree(fd)
}

var errMoved = fmt.Errorf("directories were moved meanwhile: %w", errdefs.ErrAborted)

// walk goes through a tree. One directory is open at a time, and nothing grows with the number of entries.
type walk struct {
	visit   func(dir int, name, path string, is *unix.Stat_t) error // an error ends the walk
	strict  bool                                                    // what cannot be read is an error
	maxPath int                                                     // in bytes; 0: paths are not kept
	path    []byte                                                  // of the directory that is open
	device  uint64
	above   []level
}

// level is a directory above the one that is open.
type level struct {
	inode  uint64
	offset int64 // where its entries are read on
	path   int   // the length of its path
}

// unread returns the error for something in the open directory that could not be read, unless it is left out.
func (w *walk) unread(op, name string, err error) error {
	switch {
	case err == nil, !w.strict, errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return nil // another kind of file has taken its place
	}
	return &os.PathError{Op: op, Path: name, Err: err}
}

// tree walks through an open directory, which it closes.
func (w *walk) tree(fd int) error {
	defer func() { unix.Close(fd) }()
	var top, is unix.Stat_t
	if err := unix.Fstat(fd, &top); err != nil {
		return w.unread("stat", ".", err)
	}
	w.device = top.Dev
	start := ""
	if w.maxPath > 0 {
		start = "."
	}
	if err := w.visit(fd, ".", start, &top); err != nil {
		return err
	}
	inode, buffer := top.Ino, make([]byte, 8<<10)
	for {
		below, name, offset, err := w.entries(fd, buffer)
		if err != nil {
			return err
		}
		if below >= 0 {
			if unix.Fstat(below, &is) != nil || is.Dev != w.device || len(w.above) == maxLevels {
				unix.Close(below)
				if w.strict && len(w.above) == maxLevels {
					return fmt.Errorf("more than %d directories are nested: %w", maxLevels, errdefs.ErrOutOfRange)
				}
				continue
			}
			w.above = append(w.above, level{inode, offset, len(w.path)})
			if w.maxPath > 0 {
				w.path = append(append(w.path, name...), '/')
			}
			unix.Close(fd)
			fd, inode = below, is.Ino
			continue
		}
		if len(w.above) == 0 {
			return nil
		}
		up, err := unix.Openat(fd, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return errMoved
		}
		unix.Close(fd)
		fd = up
		last := w.above[len(w.above)-1]
		w.above = w.above[:len(w.above)-1]
		if unix.Fstat(fd, &is) != nil || is.Dev != w.device || is.Ino != last.inode {
			return errMoved
		}
		if _, err := unix.Seek(fd, last.offset, unix.SEEK_SET); err != nil {
			return errMoved
		}
		inode, w.path = last.inode, w.path[:last.path]
	}
}

// entries visits entries of a directory up to the first one that is a directory itself, which it opens, and returns where
// the others begin. below is -1 if there is none.
func (w *walk) entries(fd int, buffer []byte) (below int, name string, offset int64, err error) {
	for {
		n, err := unix.Getdents(fd, buffer)
		if err != nil || n <= 0 {
			return -1, "", 0, w.unread("read", string(w.path)+".", err)
		}
		// struct linux_dirent64: inode, offset of the next one, length, type, name.
		for entry := buffer[:n]; len(entry) > 19; {
			size := int(binary.NativeEndian.Uint16(entry[16:]))
			raw, _, _ := bytes.Cut(entry[19:size], []byte{0})
			name := string(raw)
			offset = int64(binary.NativeEndian.Uint64(entry[8:]))
			entry = entry[size:]
			if name == "." || name == ".." {
				continue
			}
			var is unix.Stat_t
			if err := unix.Fstatat(fd, name, &is, unix.AT_SYMLINK_NOFOLLOW); err != nil || is.Dev != w.device {
				if err := w.unread("stat", string(w.path)+name, err); err != nil {
					return -1, "", 0, err
				}
				continue
			}
			path := ""
			if w.maxPath > 0 {
				if len(w.path)+len(name) > w.maxPath {
					return -1, "", 0, fmt.Errorf("the path %.60q... is longer than %d bytes: %w", string(w.path)+name, w.maxPath,
						errdefs.ErrOutOfRange)
				}
				path = string(w.path) + name
			}
			if err := w.visit(fd, name, path, &is); err != nil {
				return -1, "", 0, err
			}
			if is.Mode&unix.S_IFMT != unix.S_IFDIR {
				continue
			}
			below, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
			if err == nil {
				if _, err = unix.Seek(fd, offset, unix.SEEK_SET); err == nil {
					return below, name, offset, nil
				}
				unix.Close(below)
			}
			if err := w.unread("open", string(w.path)+name, err); err != nil {
				return -1, "", 0, err
			}
		}
	}
}
