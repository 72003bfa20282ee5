package files

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// Read is os.ReadFile.
func Read(path string) ([]byte, error) { return os.ReadFile(path) }

// Replace writes a file as a whole: whoever reads it finds the old content or the new one.
func Replace(path string, content []byte, mode fs.FileMode) error {
	unfinished := path + "~new"
	if err := os.WriteFile(unfinished, content, mode); err != nil {
		return err
	}
	return os.Rename(unfinished, path)
}

// ReplaceDurably is Replace: what must survive a power cut is the daemon's, which does not run here.
func ReplaceDurably(path string, content []byte, mode fs.FileMode) error {
	return Replace(path, content, mode)
}

// Full reports whether an error says that a disk has no space left.
func Full(err error) bool { return errors.Is(err, windows.ERROR_DISK_FULL) }
