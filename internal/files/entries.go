package files

import (
	"errors"
	"io/fs"
	"os"
)

// Names lists the names in a directory. There need be no such directory.
func Names(directory string) (names []string, err error) {
	entries, err := os.ReadDir(directory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// SyncDirectory returns once it is on the disk which names a directory has.
func SyncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}
