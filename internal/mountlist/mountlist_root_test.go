package mountlist

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/thread"
)

// The kernel names a mount by a path that is too long to be used, once a directory above it was moved: the list is read all the same.
func TestMountThatIsMovedDeepDown(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount something")
	}
	dir := t.TempDir()
	if err := thread.Run(func() error { return moveDeepDown(dir) }); err != nil { // in a mount namespace of the thread's own
		t.Error(err)
	}
}

func moveDeepDown(dir string) error {
	err := errors.Join(unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		os.MkdirAll(filepath.Join(dir, "a", "m"), 0o700), unix.Mount("mine", filepath.Join(dir, "a", "m"), "tmpfs", 0, ""))
	if err != nil {
		return err
	}
	top, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(top)
	in := top
	for range 300 {
		name := strings.Repeat("x", 250)
		if err := unix.Mkdirat(in, name, 0o700); err != nil {
			return err
		}
		if in, err = unix.Openat(in, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
			return err
		}
		defer unix.Close(in)
	}
	if err := unix.Renameat(top, "a", in, "a"); err != nil {
		return err
	}
	all, err := Get(nil)
	if err != nil {
		return err
	}
	for _, m := range all {
		if m.Source == "mine" && strings.HasPrefix(m.Mountpoint, dir+"/x") {
			return nil
		}
	}
	return errors.New("the mount is missing")
}
