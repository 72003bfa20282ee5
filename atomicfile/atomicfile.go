// Package atomicfile replaces a file as a whole: whoever reads it, even after this process was killed, finds the old
// content or the new one, never a part of it.
//
// continuity's AtomicWriteFile flushes each file to the disk, which is a needless wait for what does not outlive the
// host, and after a kill it leaves a file with a random name, which would be taken for a record in a directory of
// records.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/smallfile"
)

// Unfinished ends the name of a file that is being written, in the directory where it is to be. One that was left is
// written over the next time.
const Unfinished = "~new"

// Write replaces a file, or creates it, with exactly these permissions, whatever the umask. After a power cut it may be as
// it was before, or empty. No two may write the same file at a time.
func Write(path string, content []byte, mode fs.FileMode) error {
	return write(path, content, mode, func(int) error { return nil })
}

// WriteDurable is Write for what must survive a power cut: it is on the disk when the call returns.
func WriteDurable(path string, content []byte, mode fs.FileMode) error {
	if err := write(path, content, mode, unix.Fsync); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func write(path string, content []byte, mode fs.FileMode, sync func(fd int) error) error {
	unfinished := path + Unfinished
	// Nobody else may read it before it has its mode.
	err := smallfile.WriteThen(unfinished, content, 0o600, func(fd int) error {
		err := again(func() error { return unix.Fchmod(fd, uint32(mode.Perm())) })
		if err == nil {
			err = again(func() error { return sync(fd) })
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
	if err := again(func() error { return unix.Rename(unfinished, path) }); err != nil {
		return &os.LinkError{Op: "rename", Old: unfinished, New: path, Err: err}
	}
	return nil
}

// again repeats a call that a signal has interrupted.
func again(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
