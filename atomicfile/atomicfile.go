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
)

// Unfinished ends the name of a file that is being written, in the directory where it is to be. One that was left is
// written over the next time.
const Unfinished = "~new"

// Write replaces a file, or creates it, with exactly that mode, whatever the umask. After a power cut it may be as it was
// before, or empty. No two may write the same file at a time.
func Write(path string, content []byte, mode fs.FileMode) error {
	return write(path, content, mode, func(*os.File) error { return nil })
}

// WriteDurable is Write for what must survive a power cut: it is on the disk when the call returns.
func WriteDurable(path string, content []byte, mode fs.FileMode) error {
	if err := write(path, content, mode, (*os.File).Sync); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func write(path string, content []byte, mode fs.FileMode, sync func(*os.File) error) error {
	// Nobody else may read it before it has its mode.
	f, err := os.OpenFile(path+Unfinished, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(mode), sync(f), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
