package persistent

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jobd/jobd/internal/files"
)

// record is what is known of a volume besides its data.
type record struct {
	Type   Type   `json:"type"`
	Mode   Mode   `json:"mode"`
	Size   int64  `json:"size"` // bytes
	FSType string `json:"fsType,omitempty"`
	// Project is the id by which the file system limits a Directory; 0 if it does not. It is written before the limit
	// is set, so that no limit is left behind.
	Project uint32 `json:"project,omitempty"`
	// FSSize is the size in bytes that the file system in the file has been made or grown to.
	FSSize int64 `json:"fsSize,omitempty"`
	// Opened says that everybody may write to the root of a file system of its own.
	Opened bool `json:"opened,omitempty"`
}

func readRecord(dir string) (is record, err error) {
	path := filepath.Join(dir, infoFile)
	content, err := os.ReadFile(path)
	if err != nil {
		return is, err
	}
	if err := json.Unmarshal(content, &is); err != nil {
		return is, fmt.Errorf("%s: %w", path, err)
	}
	return is, nil
}

// write is durable.
func (r *record) write(dir string) error {
	content, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return files.ReplaceDurably(filepath.Join(dir, infoFile), append(content, '\n'), 0o600)
}

// syncDir waits until the entries of a directory are on the disk. There need be no such directory.
func syncDir(path string) error {
	if err := files.SyncDirectory(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// removeEmpty removes an empty directory, if there is one.
func removeEmpty(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
