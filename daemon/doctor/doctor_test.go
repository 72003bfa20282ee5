package doctor

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// What is tried is tried on the disk that a daemon would use, which may be one of its own.
func TestOnTheDisk(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "own")
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{own: dir, filepath.Join(own, "a/b"): own} {
		if got := onTheDisk(path); got != want {
			t.Errorf("for %s: %s", path, got)
		}
	}
	if err := unix.Mount("tmpfs", own, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("needs root: ", err)
	}
	t.Cleanup(func() { unix.Unmount(own, unix.MNT_DETACH) })
	if got := onTheDisk(own); got != own {
		t.Errorf("for a disk of its own: %s", got)
	}
}
