package untrusted

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// What somebody has mounted on the way, perhaps just now, is entered only by who may say no to that.
func TestDirectoriesInWhatIsMounted(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "a", "mounted")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, ""); err != nil {
		t.Skip("cannot mount: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	top, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(top)
	var asked []string
	refuse := func(path string) (int, error) {
		asked = append(asked, path)
		return -1, unix.EACCES
	}
	fd, err := MakeDirs(top, "a/mounted/b/c", refuse, func(int, int) error { return nil })
	if err == nil {
		unix.Close(fd)
	}
	if err != unix.EACCES || !slices.Equal(asked, []string{"a/mounted"}) {
		t.Errorf("%v; asked for %q", err, asked)
	}
	if _, err := os.Stat(filepath.Join(at, "b")); err == nil {
		t.Error("a directory was made in it")
	}
}
