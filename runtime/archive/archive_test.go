package archive

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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
		if err := tree.Write(&out, path); err != nil {
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
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", path, got, want)
		}
	}
	for _, path := range []string{"out/secret", "up", "missing", "fifo"} {
		var out bytes.Buffer
		if err := tree.Write(&out, path); err == nil || strings.Contains(out.String(), "secret\x00") {
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
		err := tree.Read(archiveOf(t, c.header), c.path, c.base)
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
