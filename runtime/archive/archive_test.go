package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/untrusted"
)

// world is a tree with something beside it that must not be reached.
func world(t *testing.T) (dir, beside string, tree *Tree) {
	t.Helper()
	top := t.TempDir()
	dir, beside = filepath.Join(top, "tree"), filepath.Join(top, "beside")
	for path, content := range map[string]string{
		dir + "/a/b/file": "content", dir + "/top": "top", beside + "/secret": "secret",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"out": beside, "up": "../beside/secret", "in": "a/b"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o666); err != nil {
		t.Fatal(err)
	}
	tree, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() })
	return dir, beside, tree
}

func TestWhatIsWritten(t *testing.T) {
	_, _, tree := world(t)
	for path, want := range map[string]string{
		"":             "./ a/ a/b/ a/b/file=content in>a/b out>LINK top=top up>../beside/secret",
		"/a":           "./ b/ b/file=content",
		"a/../top":     ".=top",
		"in":           "./ file=content", // a symlink within the tree is followed
		"in/file":      ".=content",
		"../../../top": ".=top",
	} {
		var out bytes.Buffer
		if err := tree.Write(t.Context(), &out, path); err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		var got []string
		for in := tar.NewReader(&out); ; {
			h, err := in.Next()
			if err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if h.Uname != "" || h.Gname != "" {
				t.Errorf("%s has the host's names %s and %s", h.Name, h.Uname, h.Gname)
			}
			content, _ := io.ReadAll(in)
			switch {
			case h.Typeflag == tar.TypeSymlink && filepath.IsAbs(h.Linkname):
				got = append(got, h.Name+">LINK")
			case h.Typeflag == tar.TypeSymlink:
				got = append(got, h.Name+">"+h.Linkname)
			case h.Typeflag == tar.TypeReg:
				got = append(got, h.Name+"="+string(content))
			default:
				got = append(got, h.Name)
			}
		}
		slices.Sort(got) // directories have no order of their own
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", path, got, want)
		}
	}
	for _, path := range []string{"out/secret", "up", "missing", "fifo"} {
		var out bytes.Buffer
		if err := tree.Write(t.Context(), &out, path); err == nil || strings.Contains(out.String(), "secret\x00") {
			t.Errorf("%s: %v, %q", path, err, out.String())
		}
	}
}

func archiveOf(t *testing.T, headers ...*tar.Header) io.Reader {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range headers {
		content := ""
		if h.Typeflag == tar.TypeReg {
			content = "new"
		}
		h.Size, h.ModTime = int64(len(content)), time.Unix(1e9, 0)
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &out
}

func TestWhatIsRead(t *testing.T) {
	dir, beside, tree := world(t)
	file := func(name string) *tar.Header { return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o4755} }
	for _, c := range []struct {
		path, base string
		header     *tar.Header
		at         string // empty: it is refused
	}{
		{"/made/deep/file", "", file("."), "made/deep/file"},
		{"/a", "base", file("."), "a/base"},
		{"/a", "../base", file("."), ""},
		{"/a", "", file("b/file"), "a/b/file"},
		{"/a", "", file("../../up-there"), "a/up-there"},
		{"/in", "", file("more"), "a/b/more"},
		{"/out", "", file("secret"), ""},
		{"/up", "", file("."), "up"}, // it takes the place of the symlink
		{"/", "", file("."), ""},
		{"/a", "", &tar.Header{Typeflag: tar.TypeSymlink, Name: "link", Linkname: "/"}, ""},
		{"/a", "", &tar.Header{Typeflag: tar.TypeChar, Name: "device"}, ""},
	} {
		err := tree.Read(t.Context(), archiveOf(t, c.header), c.path, c.base)
		if (err == nil) != (c.at != "") {
			t.Errorf("%s of %s: %v", c.header.Name, c.path, err)
			continue
		}
		if c.at == "" {
			continue
		}
		info, err := os.Lstat(filepath.Join(dir, c.at))
		if err != nil || info.Mode() != 0o755 {
			t.Errorf("%s: %v, %v", c.at, info, err)
		}
	}
	if content, err := os.ReadFile(beside + "/secret"); string(content) != "secret" {
		t.Errorf("beside the tree: %q, %v", content, err)
	}
}

func TestPathsHaveALimit(t *testing.T) {
	dir, _, tree := world(t)
	deep := filepath.Join(dir, "deep")
	if err := os.Mkdir(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = untrusted.Remove(context.Background(), deep) })
	fd, err := unix.Open(deep, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for range 10000 {
		if err == nil {
			err = unix.Mkdirat(fd, "d", 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		above := fd
		fd, err = unix.Openat(above, "d", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		unix.Close(above)
	}
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	long := strings.Repeat("d/", 2100)
	for what, err := range map[string]error{
		"a deep tree":      tree.Write(t.Context(), io.Discard, "/"),
		"a path to write":  tree.Write(t.Context(), io.Discard, long),
		"a path to check":  tree.Check(long),
		"a path to read":   tree.Read(t.Context(), archiveOf(t), long, ""),
		"a name to read":   tree.Read(t.Context(), archiveOf(t, &tar.Header{Typeflag: tar.TypeDir, Name: long}), "/", ""),
		"a name of a file": tree.Read(t.Context(), archiveOf(t, &tar.Header{Typeflag: tar.TypeReg, Name: long + "x"}), "/", ""),
	} {
		if !errdefs.IsOutOfRange(err) || !strings.Contains(err.Error(), "longer than 4096 bytes") || len(err.Error()) > 200 {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "d")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was made: %v", err)
	}
}

// TestDeepPaths would take a minute of CPU if each level were looked up from the top.
func TestDeepPaths(t *testing.T) {
	dir, _, tree := world(t)
	t.Cleanup(func() { _ = untrusted.Remove(context.Background(), filepath.Join(dir, "deep")) })
	var entries []*tar.Header
	for i := range 4 {
		name := fmt.Sprint("deep/", i, strings.Repeat("/d", 2000))
		entries = append(entries, &tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755},
			&tar.Header{Typeflag: tar.TypeReg, Name: name + "/file", Mode: 0o644})
	}
	if err := tree.Read(t.Context(), archiveOf(t, entries...), "/", ""); err != nil {
		t.Fatal(err)
	}
	for _, e := range entries[len(entries)-2:] {
		if err := tree.Check(e.Name); err != nil {
			t.Error(err)
		}
	}
}

// disguised returns an archive of one file whose header is changed.
func disguised(t *testing.T, header *tar.Header, content string, change func(block []byte)) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	header.Typeflag, header.Size = tar.TypeReg, int64(len(content))
	if err := w.WriteHeader(header); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, content); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	block := out.Bytes()[:512]
	change(block)
	copy(block[148:156], "        ")
	sum := 0
	for _, b := range block {
		sum += int(b)
	}
	copy(block[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return out.Bytes()
}

func TestSparseFilesAreRefused(t *testing.T) {
	dir, _, tree := world(t)
	const size = 1 << 35
	records := ""
	for _, r := range []string{
		"GNU.sparse.major=0", "GNU.sparse.minor=1", "GNU.sparse.name=sparse", fmt.Sprintf("GNU.sparse.size=%d", size),
		"GNU.sparse.numblocks=1", fmt.Sprintf("GNU.sparse.map=%d,0", size),
	} {
		records += fmt.Sprintf("%d %s\n", len(r)+4, r)
	}
	pax := append(disguised(t, &tar.Header{Name: "pax"}, records, func(block []byte) { block[156] = tar.TypeXHeader }),
		disguised(t, &tar.Header{Name: "sparse"}, "", func([]byte) {})...)
	gnu := disguised(t, &tar.Header{Name: "sparse", Format: tar.FormatGNU}, "", func(block []byte) {
		block[156] = tar.TypeGNUSparse
		copy(block[257:265], "ustar  \x00")
		copy(block[386:398], fmt.Sprintf("%012o", size))
		copy(block[398:410], fmt.Sprintf("%012o", 0))
		copy(block[483:495], fmt.Sprintf("%012o", size))
	})
	for name, content := range map[string][]byte{"PAX": pax, "GNU": gnu} {
		if h, err := tar.NewReader(bytes.NewReader(content)).Next(); err != nil || h.Size != size {
			t.Fatalf("the archive with a %s header is not what it is meant to be: %+v, %v", name, h, err)
		}
		err := tree.Read(t.Context(), bytes.NewReader(content), "/", "")
		if err == nil || !strings.Contains(err.Error(), "sparse is a sparse file") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(filepath.Join(dir, "sparse")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: something was made: %v", name, err)
		}
	}
}

func TestDevicesAreNotOpened(t *testing.T) {
	dir, _, tree := world(t)
	// No driver has this number: opening it fails, and not in the way that is expected here.
	if err := unix.Mknod(filepath.Join(dir, "device"), unix.S_IFCHR|0o600, int(unix.Mkdev(10, 999))); err != nil {
		t.Skipf("devices cannot be made here: %v", err)
	}
	if err := os.Symlink("device", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"device", "link", "fifo"} {
		for _, err := range []error{tree.Write(t.Context(), io.Discard, path), tree.Check(path)} {
			if !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "neither a file nor a directory") {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	if err := tree.Write(t.Context(), io.Discard, "/"); err != nil {
		t.Errorf("what they are in: %v", err)
	}
}

// until calls a function after some bytes were read or written.
type until struct {
	left int
	then func()
}

func (u *until) Write(p []byte) (int, error) {
	if u.left -= len(p); u.left <= 0 {
		u.then()
	}
	return len(p), nil
}

func (u *until) Read(p []byte) (int, error) {
	clear(p)
	return u.Write(p)
}

func TestCopyingEndsWithItsContext(t *testing.T) {
	dir, _, tree := world(t)
	const size = 16 << 20
	if err := os.Truncate(filepath.Join(dir, "top"), size); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "top"} {
		ctx, cancel := context.WithCancel(t.Context())
		if err := tree.Write(ctx, &until{2 << 20, cancel}, path); !errors.Is(err, context.Canceled) {
			t.Errorf("writing %s: %v", path, err)
		}
	}
	var header bytes.Buffer
	if err := tar.NewWriter(&header).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "fresh", Size: size}); err != nil {
		t.Fatal(err)
	}
	cut := io.MultiReader(bytes.NewReader(header.Bytes()), strings.NewReader("less"))
	if err := tree.Read(t.Context(), cut, "/a/b", ""); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("reading what is cut off: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := tree.Read(ctx, io.MultiReader(&header, &until{2 << 20, cancel}), "/a/b", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("reading: %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "a/b")); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}
