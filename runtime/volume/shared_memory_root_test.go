package volume

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSharedMemory(t *testing.T) {
	v := newVolumes(t)
	dir, err := v.SharedMemory("uid")
	if err != nil {
		t.Fatal(err)
	}
	var stat unix.Stat_t
	if err := unix.Stat(dir, &stat); err != nil || stat.Mode&0o7777 != 0o1777 || stat.Uid != 0 || stat.Gid != 0 {
		t.Errorf("mode %o, owner %d:%d, %v", stat.Mode, stat.Uid, stat.Gid, err)
	}
	var system unix.Statfs_t
	if err := unix.Statfs(dir, &system); err != nil || int64(system.Blocks)*system.Bsize != 64<<20 {
		t.Errorf("it has %d bytes, %v", int64(system.Blocks)*system.Bsize, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kept"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := v.SharedMemory("uid"); err != nil || again != dir {
		t.Errorf("set up again: %s, %v", again, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "kept")); err != nil {
		t.Error("setting up again lost a file")
	}
	if other, err := v.SharedMemory("other"); err != nil || other == dir {
		t.Errorf("another pod has %s, %v", other, err)
	}
	if held, err := v.Held(); err != nil || len(held) != 2 {
		t.Errorf("held: %v, %v", held, err)
	}
	for range 2 {
		if err := v.TearDown(context.Background(), "uid"); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("it is still there")
	}
}
