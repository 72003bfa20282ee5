package image

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/testdata/images"
	"github.com/jobd/jobd/testdata/registry"
)

func TestFloor(t *testing.T) {
	for _, c := range []struct{ free, reserve, want int64 }{
		{1000, 100, 190},
		{101, 100, 100}, // rounded
		{100, 100, 50},
		{60, 100, 30},
		{1000, 0, 100},
		{0, 0, 0}, // a disk without that limit
	} {
		if got := floor(Size{c.free, 0}, Size{c.reserve, 0}); got != (Size{c.want, 0}) {
			t.Errorf("of %d with a reserve of %d: %v, want %d", c.free, c.reserve, got, c.want)
		}
		if got := floor(Size{0, c.free}, Size{0, c.reserve}); got != (Size{0, c.want}) {
			t.Errorf("of %d inodes with a reserve of %d: %v, want %d", c.free, c.reserve, got, c.want)
		}
	}
}

// sparse returns a layer of 2 kB with a file of some bytes, all of which are a hole.
func sparse(bytesOf int64) []byte {
	record := func(key, value string) string {
		rest := fmt.Sprintf(" %s=%s\n", key, value)
		size := len(rest) + 2
		return fmt.Sprint(size) + rest // of 10 to 99 bytes
	}
	var b bytes.Buffer
	entry := func(name string, kind byte, content string) {
		header := make([]byte, 512)
		for at, field := range map[int]string{
			0: name, 100: "0000644", 108: "0000000", 116: "0000000", 124: fmt.Sprintf("%011o", len(content)), 136: "00000000000",
			148: "        ", 156: string(kind), 257: "ustar\x0000",
		} {
			copy(header[at:], field)
		}
		sum := 0
		for _, c := range header {
			sum += int(c)
		}
		copy(header[148:], fmt.Sprintf("%06o\x00 ", sum))
		b.Write(header)
		b.WriteString(content + strings.Repeat("\x00", -len(content)&511))
	}
	entry("PaxHeaders.0/big", 'x', record("GNU.sparse.major", "1")+record("GNU.sparse.minor", "0")+
		record("GNU.sparse.name", "big")+record("GNU.sparse.realsize", fmt.Sprint(bytesOf)))
	regions := fmt.Sprintf("1\n%d\n0\n", bytesOf)
	entry("GNUSparseFile.0/big", '0', regions+strings.Repeat("\x00", 512-len(regions)))
	b.Write(make([]byte, 1024))
	return b.Bytes()
}

// An image may be 2 MB as it comes, and a terabyte when it is unpacked. It is given up before it fills the disk.
func TestImagesLeaveRoom(t *testing.T) {
	bomb := small(t, "bomb", "example.com/bomb:1")
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(sparse(1 << 40))), nil })
	if err != nil {
		t.Fatal(err)
	}
	more, err := mutate.AppendLayers(bomb.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	bomb = images.Image{Image: more, Names: bomb.Names}
	free := func() int64 {
		var stat unix.Statfs_t
		if err := unix.Statfs(filepath.Dir(t.TempDir()), &stat); err != nil {
			t.Fatal(err)
		}
		return int64(stat.Bavail) * stat.Bsize
	}
	const most = 200 << 20
	reserve := free() - most
	full := 0
	i := newImages(t, Options{
		Space:    func() (Size, Size, error) { return Size{Bytes: free()}, Size{Bytes: reserve}, nil },
		DiskFull: func() { full++ },
	})
	lowest := func(do func() error) {
		t.Helper()
		if err := do(); !errdefs.IsResourceExhausted(err) || !strings.Contains(err.Error(), "would fill the disk") {
			t.Errorf("got %v", err)
		}
		left := 0
		if err := i.client.SnapshotService(i.options.Snapshotter).Walk(i.inNamespace(t.Context()), func(context.Context, snapshots.Info) error {
			left++
			return nil
		}); err != nil || left > 0 {
			t.Errorf("%d snapshots are left: %v", left, err)
		}
	}
	lowest(func() error { _, err := i.Import(t.Context(), bomb.Docker(), ""); return err })
	r := registry.Start(t, registry.Options{})
	name, _ := r.Push(t, bomb, "bomb:1")
	lowest(func() error { _, err := i.Ensure(t.Context(), name, corev1.PullAlways, nil, nil); return err })
	if full == 0 {
		t.Error("nobody is told that images should go")
	}
	if list, err := i.List(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("left are %v, %v", list, err)
	}
}
