package outside

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// A file system of a user which never answers is not entered, by no way that leads to it, and the file systems of root are.
func TestFileSystemsOfUsersAreNotEntered(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir()
	silent := filepath.Join(dir, "disk", "home", "silent")
	mounted := func(err error, at string) {
		t.Helper()
		if err != nil {
			t.Skip("cannot mount: ", err)
		}
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	}
	if err := os.Mkdir(filepath.Join(dir, "disk"), 0o755); err != nil {
		t.Fatal(err)
	}
	mounted(unix.Mount("tmpfs", filepath.Join(dir, "disk"), "tmpfs", 0, ""), filepath.Join(dir, "disk"))
	if err := errors.Join(os.MkdirAll(silent, 0o755), os.Symlink("disk/home/silent", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	server, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { server.Close() }) // which ends every wait for it
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=1000,group_id=1000,allow_other", server.Fd())
	mounted(unix.Mount("silent", silent, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options), silent)
	top, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(top)
	for path, refused := range map[string]bool{
		"disk/home": false, "disk": false, "disk/home/silent": true, "disk/home/silent/a/b": true, "link": true, "link/a": true, "disk/home/silent/..": true,
	} {
		done := make(chan error, 1)
		go func() {
			fd, err := Open(top, path, unix.RESOLVE_BENEATH)
			if err == nil {
				unix.Close(fd)
			}
			full := filepath.Join(dir, path)
			_, failed := Stat(full)
			isDir, isFailed := IsDir(full)
			real, realFailed := Real(full)
			for _, other := range []error{failed, isFailed, realFailed} {
				if strings.HasSuffix(path, "/..") { // which a path of the host is cleaned of
					continue
				}
				if (other == nil) != (err == nil) || errors.Is(other, errdefs.ErrPermissionDenied) != errors.Is(err, errdefs.ErrPermissionDenied) {
					err = fmt.Errorf("%w; as a path of the host: %w", err, other)
				}
			}
			if err == nil && (!isDir || real != full) {
				err = fmt.Errorf("it is %s, a directory: %t", real, isDir)
			}
			done <- err
		}()
		select {
		case err := <-done:
			if refused != errors.Is(err, errdefs.ErrPermissionDenied) || refused && !strings.Contains(err.Error(), "a process of user 1000 answers") {
				t.Errorf("%s: %v", path, err)
			}
		case <-time.After(10 * time.Second):
			server.Close()
			t.Fatalf("%s is waited for", path)
		}
	}
}
