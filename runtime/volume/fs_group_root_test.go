package volume

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFSGroupOfPrograms proves that a program that sets its group does not do so with a group that it is given later.
func TestFSGroupOfPrograms(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir()
	for name, mode := range map[string]uint32{"program": 0o6755, "own": 0o2755} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
		if name == "own" {
			if err := os.Chown(path, -1, 1234); err != nil {
				t.Fatal(err)
			}
		}
		if err := unix.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(at)
	for name, want := range map[string]uint32{"program": 0o775, "own": 0o2775} {
		if err := groupOwns(at, name, 1234); err != nil {
			t.Fatal(err)
		}
		var is unix.Stat_t
		if err := unix.Stat(filepath.Join(dir, name), &is); err != nil || is.Gid != 1234 || is.Mode&0o7777 != want {
			t.Errorf("%s: group %d, mode %o, %v; want mode %o", name, is.Gid, is.Mode&0o7777, err, want)
		}
	}
}
