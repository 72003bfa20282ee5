package volume

import (
	"errors"
	"os"
	"path/filepath"
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
			for _, file := range []string{filepath.Join(tree, "deep", "file"), filepath.Join(host, "deep", "file"), filepath.Join(host, "deep", "dir", "precious")} {
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
			err := removeTree(tree)
			if unmountErr := unix.Unmount(point, unix.MNT_DETACH); unmountErr != nil {
				t.Fatal(unmountErr)
			}
			if !errors.Is(err, errMounted) {
				t.Errorf("with a mount: %v", err)
			}
			if err := removeTree(tree); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(tree); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("left: %v", err)
			}
			if _, err := os.Stat(filepath.Join(host, "deep", "dir", "precious")); err != nil {
				t.Error(err)
			}
			if err := removeTree(tree); err != nil {
				t.Errorf("a second time: %v", err)
			}
		})
	}
}
