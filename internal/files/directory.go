//go:build unix

package files

import (
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// MkdirAll is os.MkdirAll for directories that are most often new, while the one above their parents is there: it does not
// look before. It does not notice that what is there is no directory. Errors are of type *fs.PathError.
func MkdirAll(path string, mode fs.FileMode) error {
	err := mkdir(path, mode)
	if err == unix.ENOENT {
		if err := MkdirAll(filepath.Dir(path), mode); err != nil {
			return err
		}
		err = mkdir(path, mode)
	}
	if err != nil && err != unix.EEXIST {
		return &fs.PathError{Op: "mkdir", Path: path, Err: err}
	}
	return nil
}

func mkdir(path string, mode fs.FileMode) error {
	return retried(func() error { return unix.Mkdir(path, uint32(mode.Perm())) })
}
