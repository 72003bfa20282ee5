package images

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func small(t *testing.T, names ...string) Image {
	t.Helper()
	tree := NewTree()
	tree.Text("/hello", 0o644, "hello\n")
	img, err := New(tree, v1.Config{Cmd: []string{"/hello"}}, names...)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func TestBuildingAgainGivesTheSameDigest(t *testing.T) {
	first, _ := small(t).Digest()
	second, _ := small(t).Digest()
	if first != second {
		t.Errorf("digests differ: %s, %s", first, second)
	}
}

func TestImageIsWellFormed(t *testing.T) {
	if err := validate.Image(small(t), validate.Fast); err != nil {
		t.Error(err)
	}
}

func TestDockerArchiveHoldsTheImageUnderItsNames(t *testing.T) {
	img := small(t, "docker.io/library/hello:1", "example.com/hello:2")
	raw, err := io.ReadAll(img.Docker())
	if err != nil {
		t.Fatal(err)
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil }
	for _, n := range img.Names {
		tag, err := name.NewTag(n)
		if err != nil {
			t.Fatal(err)
		}
		back, err := tarball.Image(open, &tag)
		if err != nil {
			t.Fatalf("%s: %v", n, err)
		}
		want, _ := img.ConfigName()
		if got, _ := back.ConfigName(); got != want {
			t.Errorf("%s: config %s, want %s", n, got, want)
		}
	}
}

func TestTreeFollowsLinksOfTheMachine(t *testing.T) {
	dir := t.TempDir()
	for _, err := range []error{
		os.MkdirAll(filepath.Join(dir, "real/sub"), 0o755),
		os.WriteFile(filepath.Join(dir, "real/sub/file"), []byte("x"), 0o640),
		os.Symlink("real", filepath.Join(dir, "link")),
		os.Symlink(filepath.Join(dir, "link/sub/file"), filepath.Join(dir, "entry")),
		os.Symlink("nowhere", filepath.Join(dir, "real/dangling")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	tree := NewTree()
	tree.Copy(filepath.Join(dir, "entry"))
	for _, want := range []string{"entry", "link", "real/sub/file"} {
		if !tree.Has(filepath.Join(dir, want)) {
			t.Errorf("%s is missing", want)
		}
	}
	tree.Copy(filepath.Join(dir, "real"))
	if tree.Has(filepath.Join(dir, "real/dangling")) && tree.err != nil {
		t.Errorf("a dangling link stops the copy: %v", tree.err)
	}
	tree.Copy(filepath.Join(dir, "missing"))
	if err := tree.Write(io.Discard); err == nil {
		t.Error("a missing file is no error")
	}
}

func TestParseList(t *testing.T) {
	got := parseList(`	linux-vdso.so.1 (0x00007f2caeff5000)
	libm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f2caeb20000)
	/lib64/ld-linux-x86-64.so.2 (0x00007f2caeff7000)
`)
	want := []string{"/lib/x86_64-linux-gnu/libm.so.6", "/lib64/ld-linux-x86-64.so.2"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
