package containerd

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// The devices of an image are nobody's: not in its containers, and not for users of the host who look into them.
func TestImagesHaveNoDevices(t *testing.T) {
	needRoot(t)
	for _, overlay := range []bool{false, true} {
		dir := t.TempDir()
		at := func(name string) string { return filepath.Join(dir, name) }
		if err := os.MkdirAll(at("a/b"), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, kind := range map[string]uint32{"disk": unix.S_IFBLK, "a/b/memory": unix.S_IFCHR, "a/pipe": unix.S_IFIFO} {
			if err := unix.Mknod(at(name), kind|0o666, int(unix.Mkdev(1, 1))); err != nil {
				t.Fatal(err)
			}
		}
		if err := unix.Mknod(at("a/whiteout"), unix.S_IFCHR, 0); err != nil {
			t.Fatal(err)
		}
		if err := removeDevices(t.Context(), dir, overlay); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"disk", "a/b/memory"} {
			var is unix.Stat_t
			switch err := unix.Lstat(at(name), &is); {
			case !overlay && err != unix.ENOENT:
				t.Errorf("%s is left: %v", name, err)
			case overlay && (err != nil || is.Mode != unix.S_IFCHR || is.Rdev != 0):
				t.Errorf("%s is no whiteout: %#o, %v", name, is.Mode, err)
			}
		}
		for _, name := range []string{"a/pipe", "a/whiteout"} {
			if _, err := os.Lstat(at(name)); err != nil {
				t.Error(err)
			}
		}
	}
}
