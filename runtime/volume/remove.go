package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// errMounted says that a directory has something mounted in it.
var errMounted = errors.New("something is mounted there")

// removeTree removes a directory with all that is in it, and does not enter what is mounted there: it stops with
// errMounted. Asking the kernel on the way costs nothing; its list of mounts is long where many pods run. What does not
// exist is no error.
func removeTree(path string) error {
	parent, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	} else if err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	defer unix.Close(parent)
	if err := removeAt(parent, filepath.Base(path)); err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

func removeAt(parent int, name string) error {
	err := unix.Unlinkat(parent, name, 0)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
		if err = emptyAt(parent, name); err == nil {
			err = unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
		}
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EXDEV):
		return errMounted
	}
	return err
}

// emptyAt removes the contents of a directory.
func emptyAt(parent int, name string) error {
	fd, err := unix.Openat2(parent, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	for _, n := range names {
		if err := removeAt(fd, n); err != nil {
			return err
		}
	}
	return err
}
