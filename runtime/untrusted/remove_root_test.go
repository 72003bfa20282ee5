package untrusted

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRemoveTreeStopsAtMounts(t *testing.T) {
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("needs root and no -short")
	}
	for _, mounted := range []string{"deep/dir", "deep/file"} {
		t.Run(mounted, func(t *testing.T) {
			base := t.TempDir()
			tree, host := filepath.Join(base, "tree"), filepath.Join(base, "host")
			for _, dir := range []string{filepath.Join(tree, "deep", "dir"), filepath.Join(tree, "other"), filepath.Join(host, "deep", "dir")} {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for _, file := range []string{
				filepath.Join(tree, "deep", "file"), filepath.Join(host, "deep", "file"),
				filepath.Join(host, "deep", "dir", "precious"),
			} {
				if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(host, filepath.Join(tree, "link")); err != nil {
				t.Fatal(err)
			}
			point := filepath.Join(tree, mounted)
			if err := unix.Mount(filepath.Join(host, mounted), point, "", unix.MS_BIND, ""); err != nil {
				t.Fatal(err)
			}
			err := Remove(t.Context(), tree)
			if unmountErr := unix.Unmount(point, unix.MNT_DETACH); unmountErr != nil {
				t.Fatal(unmountErr)
			}
			if !errors.Is(err, ErrMounted) {
				t.Errorf("with a mount: %v", err)
			}
			if err := Remove(t.Context(), tree); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(tree); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("left: %v", err)
			}
			if _, err := os.Stat(filepath.Join(host, "deep", "dir", "precious")); err != nil {
				t.Error(err)
			}
			if err := Remove(t.Context(), tree); err != nil {
				t.Errorf("a second time: %v", err)
			}
		})
	}
}

// deepTree makes nested directories, with a file of a megabyte in the last one.
func deepTree(t *testing.T, path string, levels int) {
	t.Helper()
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for range levels {
		if err == nil {
			err = unix.Mkdirat(fd, "d", 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		above := fd
		fd, err = unix.Openat(above, "d", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		unix.Close(above)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	file, err := unix.Openat(fd, "file", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(file)
	if _, err := unix.Write(file, make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
}

// A descriptor for each level, or a path of all of them, is more than the kernel allows.
func TestDeepTree(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time")
	}
	const levels = 4000
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	few := limit
	few.Cur = 256
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	base := t.TempDir()
	tree := filepath.Join(base, "tree")
	deepTree(t, tree, levels)
	for i := range 100 { // and wide at the top
		if err := os.MkdirAll(filepath.Join(tree, "wide"+strconv.Itoa(i), "below"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if used, err := Usage(t.Context(), tree); err != nil || used.Inodes != levels+202 || used.Bytes < 1<<20 {
		t.Errorf("it is measured as %+v", used)
	}
	if err := Empty(t.Context(), tree); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(tree); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := os.Remove(tree); err != nil {
		t.Fatal(err)
	}
	deepTree(t, tree, levels)
	if err := Remove(t.Context(), tree); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(base); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestUsageCountsAFileOnce(t *testing.T) {
	tree := t.TempDir()
	write := func(name string, size int) {
		if err := os.WriteFile(filepath.Join(tree, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	empty, _ := Usage(t.Context(), tree)
	write("a", 1<<20)
	if err := errors.Join(os.Link(filepath.Join(tree, "a"), filepath.Join(tree, "b")), os.Symlink("/usr", filepath.Join(tree, "link"))); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 { // more than are read at a time
		write("entry-with-a-long-name-"+strconv.Itoa(i), 0)
		if i%10 == 0 {
			if err := os.Mkdir(filepath.Join(tree, "directory-"+strconv.Itoa(i)), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	used, _ := Usage(t.Context(), tree)
	if used.Inodes != empty.Inodes+1102 || used.Bytes-empty.Bytes < 1<<20 || used.Bytes-empty.Bytes > 2<<20 {
		t.Errorf("%+v, empty %+v", used, empty)
	}
	if used, err := Usage(t.Context(), filepath.Join(tree, "none")); err != nil || used != (Used{}) {
		t.Errorf("what does not exist: %+v", used)
	}
}

func TestRemoveTakesOffFlags(t *testing.T) {
	base := t.TempDir()
	tree := filepath.Join(base, "tree")
	dir, file, log := filepath.Join(tree, "dir"), filepath.Join(tree, "dir", "file"), filepath.Join(tree, "log")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(file, nil, 0o600), os.WriteFile(log, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	lock := func(path string, flag int) {
		t.Helper()
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flag); err != nil {
			t.Skipf("flags of files cannot be set here: %v", err)
		}
	}
	t.Cleanup(func() { _ = Remove(t.Context(), tree) })
	lock(log, 0x20)
	lock(file, 0x10)
	lock(dir, 0x10)
	lock(tree, 0x20)
	if err := os.RemoveAll(tree); err == nil {
		t.Fatal("they keep nothing from being removed")
	}
	if err := Remove(t.Context(), tree); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(base); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Somebody who has a directory of the tree open may make files in it as fast as they are removed: that ends with the context.
func TestRemovingEndsWithTheContext(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tree")
	if err := os.MkdirAll(filepath.Join(dir, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Remove(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "in")); err != nil {
		t.Error(err)
	}
	if err := Remove(t.Context(), dir); err != nil {
		t.Error(err)
	}
}
