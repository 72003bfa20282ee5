package archive

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// zeros is content without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestSomeRoomIsLeft(t *testing.T) {
	dir := t.TempDir()
	const size = 16 << 20
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=16m,nr_inodes=1000"); err != nil {
		t.Skipf("nothing can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	tree, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	file := func(size int64) io.Reader {
		t.Helper()
		var header bytes.Buffer
		if err := tar.NewWriter(&header).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "file", Size: size}); err != nil {
			t.Fatal(err)
		}
		return io.MultiReader(&header, io.LimitReader(zeros{}, size), bytes.NewReader(make([]byte, 1024)))
	}
	if err := tree.Read(t.Context(), file(size/2), "/", ""); err != nil {
		t.Error(err)
	}
	if err := tree.Read(t.Context(), file(size), "/", ""); !errdefs.IsResourceExhausted(err) {
		t.Errorf("a file as large as the volume: %v", err)
	}
	// It grows beyond what it said, as when others write at the same time.
	out, err := os.Create(filepath.Join(dir, "filled"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := tree.fill(out, zeros{}); !errdefs.IsResourceExhausted(err) {
		t.Errorf("content without end: %v", err)
	}
	var is unix.Statfs_t
	if err := unix.Statfs(dir, &is); err != nil {
		t.Fatal(err)
	}
	if is.Bavail < is.Blocks/100 || is.Bavail > is.Blocks/10 {
		t.Errorf("%d of %d blocks are left", is.Bavail, is.Blocks)
	}
	if err := os.Remove(out.Name()); err != nil {
		t.Fatal(err)
	}
	var many bytes.Buffer
	w := tar.NewWriter(&many)
	for i := range 2000 {
		name := string(rune('a'+i%26)) + "/" + string(rune('a'+i/26%26)) + "/" + string(rune('a'+i/676))
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	if err := tree.Read(t.Context(), &many, "/", ""); !errdefs.IsResourceExhausted(err) {
		t.Errorf("many files: %v", err)
	}
	if err := unix.Statfs(dir, &is); err != nil || is.Ffree == 0 {
		t.Errorf("%d inodes are left, %v", is.Ffree, err)
	}
}
