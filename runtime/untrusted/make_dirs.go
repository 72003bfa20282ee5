package untrusted

import (
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// MakeDirs opens the directory at a clean path below an open one, and makes what is missing of it. It goes from each directory to the
// next, since a path may have two thousand levels. Symlinks, and what is mounted, lead on from the top: resolve opens a path from there.
// made is called with each directory that was made, which is open for reading and nobody but its owner may enter yet, and the one above.
func MakeDirs(top int, path string, resolve func(path string) (int, error), made func(dir, above int) error) (int, error) {
	const noLink = unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	dir, err := unix.Openat(top, ".", unix.O_PATH|noLink, 0)
	if err != nil || path == "." {
		return dir, err
	}
	for end := range len(path) + 1 {
		if end < len(path) && path[end] != '/' {
			continue
		}
		name := filepath.Base(path[:end])
		below, err := openHere(dir, name, unix.O_PATH|noLink)
		if errors.Is(err, unix.ENOENT) {
			if err = unix.Mkdirat(dir, name, 0o700); err == nil {
				below, err = makeOne(dir, name, noLink, made)
			}
		}
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EXDEV) {
			below, err = resolve(path[:end])
		}
		unix.Close(dir)
		if err != nil {
			return -1, err
		}
		dir = below
	}
	return dir, nil
}

func makeOne(above int, name string, flags int, made func(dir, above int) error) (int, error) {
	dir, err := openHere(above, name, unix.O_RDONLY|flags)
	if err != nil {
		return -1, err
	}
	if err := made(dir, above); err != nil {
		return -1, errors.Join(err, unix.Close(dir))
	}
	return dir, nil
}

// openHere opens a name in a directory. What somebody has mounted there is not entered: that is EXDEV.
func openHere(dir int, name string, flags int) (int, error) {
	return unix.Openat2(dir, name, &unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_XDEV})
}
