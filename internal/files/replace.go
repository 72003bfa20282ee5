//go:build unix

package files

import (
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Unfinished ends the name of a file that is being written, in the directory where it is to be. One that was left is
// written over the next time.
const Unfinished = "~new"

// Replace writes a file as a whole, with exactly these permissions, whatever the umask: whoever reads it, even after this
// process was killed, finds the old content or the new one, never a part of it. After a power cut it may be as it was
// before, or empty. No two may replace the same file at a time.
//
// continuity's AtomicWriteFile is no replacement: it flushes each file to the disk, a needless wait for what does not outlive
// the host, and a kill leaves a file with a random name, which would pass for a record in a directory of records.
func Replace(path string, content []byte, mode fs.FileMode) error {
	return replace(path, content, mode, func(int) error { return nil })
}

// ReplaceDurably is Replace for what must survive a power cut: it is on the disk when the call returns.
func ReplaceDurably(path string, content []byte, mode fs.FileMode) error {
	if err := replace(path, content, mode, unix.Fsync); err != nil {
		return err
	}
	return SyncDirectory(filepath.Dir(path))
}

func replace(path string, content []byte, mode fs.FileMode, sync func(fd int) error) error {
	unfinished := path + Unfinished
	// Nobody else may read it before it has its mode.
	err := WriteThen(unfinished, content, 0o600, func(fd int) error {
		err := retried(func() error { return unix.Fchmod(fd, uint32(mode.Perm())) })
		if err == nil {
			err = retried(func() error { return sync(fd) })
		}
		if err != nil {
			return &fs.PathError{Op: "write", Path: unfinished, Err: err}
		}
		return nil
	})
	if err != nil {
		return err
	}
	// os.Rename looks at what is there first.
	if err := retried(func() error { return unix.Rename(unfinished, path) }); err != nil {
		return &os.LinkError{Op: "rename", Old: unfinished, New: path, Err: err}
	}
	return nil
}
