//go:build linux

package filelock

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/files"
	"github.com/jobd/jobd/runtime/thread"
)

// A lock on a disk that others have filled has no name, and is held all the same.
func TestLockOnAFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for a small disk")
	}
	dir := t.TempDir()
	err := thread.Run(func() error { // in a mount namespace of the thread's own
		err := errors.Join(unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4k"))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "all"), make([]byte, 1<<20), 0o600); !files.Full(err) {
			t.Errorf("the disk is not full: %v", err)
		}
		path := filepath.Join(dir, "lock")
		l, err := Take(path)
		if err != nil {
			return err
		}
		var held *HeldError
		if _, err := Take(path); !errors.As(err, &held) || held.PID != 0 {
			t.Errorf("the second one: %v", err)
		}
		return l.Close()
	})
	if err != nil {
		t.Error(err)
	}
}
