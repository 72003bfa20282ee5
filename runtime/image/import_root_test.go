package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/zstd"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/testdata/images"
)

// small makes an image of a single file.
func small(t testing.TB, content string, names ...string) images.Image {
	t.Helper()
	tree := images.NewTree()
	tree.Text("/content", 0o644, content)
	img, err := images.New(tree, v1.Config{Cmd: []string{"/content"}, Env: []string{"A=b"}}, names...)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func read(t testing.TB, r io.ReadCloser) []byte {
	t.Helper()
	defer r.Close()
	raw, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func zipped(t testing.TB, raw []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(raw)
	_ = w.Close()
	return b.Bytes()
}

func zstandard(t testing.TB, raw []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(raw, nil)
}

func names(list []runtime.Image) string {
	var all []string
	for _, i := range list {
		all = append(all, i.Name)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestImport(t *testing.T) {
	one, two := small(t, "one", "example.com/a:1"), small(t, "two", "two", "example.com/b:2")
	nameless := small(t, "nameless")
	own, err := nameless.Digest()
	if err != nil {
		t.Fatal(err)
	}
	pinned := "example.com/a@" + own.String()
	ownDigest := renamed(t, small(t, "nameless", "example.com/a:1"), "example.com/a:1", pinned)
	foreignDigest := renamed(t, small(t, "other", "example.com/a:1"), "example.com/a:1", pinned)
	var both, bothOCI bytes.Buffer
	if err := images.WriteDocker(&both, one, two); err != nil {
		t.Fatal(err)
	}
	if err := images.WriteOCI(&bothOCI, one, two); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rule    string
		archive []byte
		name    string
		want    string
	}{
		{"a docker archive gives the image its name", read(t, one.Docker()), "", "example.com/a:1"},
		{"an OCI layout gives the image its name", read(t, one.OCI()), "", "example.com/a:1"},
		{"short names are completed", read(t, two.Docker()), "", "docker.io/library/two:latest example.com/b:2"},
		{"a gzipped archive is read", zipped(t, read(t, one.Docker())), "", "example.com/a:1"},
		{"a zstd archive is read", zstandard(t, read(t, one.OCI())), "", "example.com/a:1"},
		{"an archive of bzip2 is read", piped(t, read(t, one.Docker()), "bzip2"), "", "example.com/a:1"},
		{"an archive of xz is read", piped(t, read(t, one.Docker()), "xz"), "", "example.com/a:1"},
		{"a digest in the name is that of the content", ownDigest, "", pinned},
		{"a given name takes the place of a digest that is not its own", foreignDigest, "given", "docker.io/library/given:latest"},
		{"a docker archive may hold several images", both.Bytes(), "", "docker.io/library/two:latest example.com/a:1 example.com/b:2"},
		{"an OCI layout may hold several images", bothOCI.Bytes(), "", "docker.io/library/two:latest example.com/a:1 example.com/b:2"},
		{"a given name names what has none", read(t, nameless.Docker()), "given", "docker.io/library/given:latest"},
		{"a given name names what has none in an OCI layout", read(t, nameless.OCI()), "given:2", "docker.io/library/given:2"},
		{"a given name takes the place of the archive's", read(t, one.Docker()), "given", "docker.io/library/given:latest"},
		{"a given name takes the place of all names of one image", read(t, two.OCI()), "given", "docker.io/library/given:latest"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			i := newImages(t, Options{})
			got, err := i.Import(t.Context(), bytes.NewReader(c.archive), c.name)
			if err != nil {
				t.Fatal(err)
			}
			if n := names(got); n != c.want {
				t.Errorf("imported %q, want %q", n, c.want)
			}
			for _, img := range got {
				here, err := i.Ensure(t.Context(), img.Name, corev1.PullNever, nil, nil)
				if err != nil || here.ChainID != img.ChainID {
					t.Errorf("after the import: %+v, %v", here, err)
				}
			}
		})
	}
}

func TestImportRefuses(t *testing.T) {
	one, two := small(t, "one", "example.com/a:1"), small(t, "two", "example.com/b:2")
	var both bytes.Buffer
	if err := images.WriteOCI(&both, one, two); err != nil {
		t.Fatal(err)
	}
	whole := read(t, one.Docker())

	for _, c := range []struct {
		rule    string
		archive []byte
		name    string
		says    string
	}{
		{"an archive that is cut short", whole[:len(whole)/2], "", "cut short"},
		{"a gzipped archive that is cut short", zipped(t, whole)[:400], "", "cut short"},
		{"nothing at all", nil, "", "the archive is empty"},
		{"nothing at all, compressed", zipped(t, nil), "", "the archive is empty"},
		{"an archive of xz that is cut short", piped(t, whole, "xz")[:200], "", "xz cannot decompress the archive"},
		{"an archive of bzip2 that is cut short", piped(t, whole, "bzip2")[:200], "", "the archive is damaged"},
		{"a layer that is not that of the config", wrongLayer(t, whole), "", "a layer of the image is broken"},
		{"a root file system", tarOf(t, "etc/passwd", "root:x:0:0::/:/bin/sh"), "", "docker import"},
		{
			"a digest in the name that is not that of the content",
			renamed(t, one, "example.com/a:1", "a@sha256:"+strings.Repeat("1", 64)), "", "the digest of what it holds is sha256:",
		},
		{"what is no archive", bytes.Repeat([]byte("this is no archive\n"), 1000), "", "not an archive of images"},
		{"an archive of something else", tarOf(t, "README", "hello"), "", "not an archive of images"},
		{"a manifest that is no JSON", tarOf(t, "manifest.json", "hello"), "", "not an archive of images"},
		{"a manifest without its layers", tarOf(t, "manifest.json", `[{"Config":"c","Layers":["l"],"RepoTags":["a:1"]}]`), "", "not an archive of images"},
		{"an archive without names, given none", read(t, small(t, "x").Docker()), "", "give it a name"},
		{"an OCI layout without names, given none", read(t, small(t, "x").OCI()), "", "give it a name"},
		{"one name for several images", both.Bytes(), "given", "2 images"},
		{"a name that is none", whole, "Not A Name", "image name"},
		{"a digest as a name", whole, "a@sha256:" + strings.Repeat("0", 64), "digest"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			i := newImages(t, Options{})
			got, err := i.Import(t.Context(), bytes.NewReader(c.archive), c.name)
			if err == nil {
				t.Fatalf("imported %s", names(got))
			}
			if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v: want InvalidArgument and %q", err, c.says)
			}
			t.Log(err)
			if list, err := i.List(t.Context()); err != nil || len(list) > 0 {
				t.Errorf("left behind: %s, %v", names(list), err)
			}
		})
	}
}

func TestImportAfterABrokenOneOfTheSameFileNames(t *testing.T) {
	i := newImages(t, Options{})
	whole := read(t, small(t, strings.Repeat("one", 10000), "example.com/a:1").Docker())
	for n := 1; n < 8; n++ {
		if _, err := i.Import(t.Context(), bytes.NewReader(whole[:len(whole)*n/8]), ""); err == nil {
			t.Fatal("a part of the archive was accepted")
		}
	}
	if _, err := i.Import(t.Context(), bytes.NewReader(whole), ""); err != nil {
		t.Error(err)
	}
}

func TestImportStopsWithItsContext(t *testing.T) {
	i := newImages(t, Options{})
	r, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = w.Write(read(t, small(t, "x", "example.com/a:1").Docker())[:512])
		cancel()
		w.CloseWithError(context.Canceled)
	}()
	if _, err := i.Import(ctx, r, ""); err == nil || errdefs.IsInvalidArgument(err) {
		t.Errorf("got %v", err)
	}
}

func tarOf(t testing.TB, name, content string) []byte {
	t.Helper()
	return tarOfFiles(t, name, content)
}

// tarOfFiles takes names and contents in turn. A content that begins with an arrow is where a link leads.
func tarOfFiles(t testing.TB, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		h := &tar.Header{Name: files[i], Size: int64(len(files[i+1])), Mode: 0o644}
		for arrow, kind := range map[string]byte{"->": tar.TypeSymlink, "=>": tar.TypeLink} {
			if target, ok := strings.CutPrefix(files[i+1], arrow); ok {
				h.Typeflag, h.Linkname, h.Size = kind, target, 0
			}
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			_, _ = w.Write([]byte(files[i+1]))
		}
	}
	_ = w.Close()
	return b.Bytes()
}

// An archive names whatever it likes: nothing is read that is not in it, and nothing takes long.
func TestHostileArchives(t *testing.T) {
	const layout = `{"imageLayoutVersion":"1.0.0"}`
	descriptor := func(digest string, size int64, more string) string {
		return fmt.Sprintf(`{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"%s","size":%d,"annotations":{"org.opencontainers.image.ref.name":"example.com/a:1"}%s}`,
			digest, size, more)
	}
	index := func(manifests string) string { return `{"schemaVersion":2,"manifests":[` + manifests + `]}` }
	blob := `{"schemaVersion":2,"config":{"digest":"sha256:` + strings.Repeat("1", 64) + `","size":2},"layers":[]}`
	sum := digestOf([]byte(blob))
	var links, empty []string
	for n := range 40 {
		links = append(links, fmt.Sprintf("l%d", n), "->"+strings.Repeat("y", 1_000_000)) // which compress to nothing
	}
	for n := range 200_000 {
		empty = append(empty, fmt.Sprintf("l%d", n), "->y")
	}
	for name, files := range map[string][]string{
		"a config of the host":       {"manifest.json", `[{"Config":"../../../../etc/passwd","Layers":[],"RepoTags":["a:1"]}]`},
		"a config by its whole path": {"manifest.json", `[{"Config":"/etc/passwd","Layers":[],"RepoTags":["a:1"]}]`},
		"a layer that is a symlink":  {"c", "{}", "l", "->/etc/passwd", "manifest.json", `[{"Config":"c","Layers":["l"],"RepoTags":["a:1"]}]`},
		"a layer that is a link upwards": {
			"c", "{}", "l", "->../../../../../../etc/passwd", "manifest.json",
			`[{"Config":"c","Layers":["l"],"RepoTags":["a:1"]}]`,
		},
		"a layer that is a hard link":  {"c", "{}", "l", "=>/etc/passwd", "manifest.json", `[{"Config":"c","Layers":["l"],"RepoTags":["a:1"]}]`},
		"a link to itself":             {"c", "{}", "l", "->l", "manifest.json", `[{"Config":"c","Layers":["l"],"RepoTags":["a:1"]}]`},
		"a manifest that is a link":    {"manifest.json", "->/etc/passwd"},
		"an index that is a link":      {"oci-layout", layout, "index.json", "->/etc/passwd"},
		"a manifest that is not there": {"oci-layout", layout, "index.json", index(descriptor("sha256:"+strings.Repeat("0", 64), 7, ""))},
		"a digest that is a path":      {"oci-layout", layout, "index.json", index(descriptor("../../../../etc/passwd", 7, ""))},
		"a digest of another kind":     {"oci-layout", layout, "index.json", index(descriptor("sha256:../../../etc/passwd", 7, ""))},
		"a size below nothing":         {"oci-layout", layout, "x", blob, "index.json", index(descriptor(sum, -1, ""))},
		"a size of exabytes":           {"oci-layout", layout, "x", blob, "index.json", index(descriptor(sum, 1<<62, ""))},
		"a manifest from the web": {
			"oci-layout", layout, "index.json",
			index(descriptor("sha256:"+strings.Repeat("0", 64), 7, `,"urls":["http://127.0.0.1:1/"]`)),
		},
		"a name that is a path": {"c", "{}", "manifest.json", `[{"Config":"c","Layers":[],"RepoTags":["../../a:1"]}]`},
		"20,000 names": {
			"oci-layout", layout, "x", blob, "index.json",
			index(strings.Repeat(descriptor(sum, int64(len(blob)), "")+",", 1e4) + descriptor(sum, 1, "")),
		},
		"links to megabytes":       links,
		"very many links":          empty,
		"20 MB of names":           {"c", "{}", "manifest.json", `[{"Config":"c","Layers":[],"RepoTags":["a:1"` + strings.Repeat(`,"b:1"`, 5e6) + `]}]`},
		"an index of 5 MB":         {"oci-layout", layout, "index.json", index(descriptor(sum, 7, "")) + strings.Repeat(" ", 5<<20)},
		"deep JSON":                {"manifest.json", strings.Repeat("[", 1e6)},
		"a file above the archive": {"../../../../../tmp/jobd-hostile-archive", "made", "manifest.json", "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			i := newImages(t, Options{})
			begin := time.Now()
			list, err := i.Import(t.Context(), bytes.NewReader(tarOfFiles(t, files...)), "")
			if !errdefs.IsInvalidArgument(err) || len(list) > 0 {
				t.Errorf("imported %s, %v", names(list), err)
			}
			if took := time.Since(begin); took > 30*time.Second {
				t.Errorf("it takes %v", took)
			}
			if err != nil && strings.Contains(err.Error(), "root:") {
				t.Errorf("it tells what is in the host's file: %v", err)
			}
			t.Logf("%.200v", err)
		})
	}
	if _, err := os.Lstat("/tmp/jobd-hostile-archive"); err == nil {
		t.Error("a file has been made above the archive")
	}
}

// piped returns what a program makes of its input.
func piped(t testing.TB, raw []byte, program string) []byte {
	t.Helper()
	cmd := exec.Command(program, "-c")
	cmd.Stdin = bytes.NewReader(raw)
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("needs " + program)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// renamed returns an OCI layout of an image in which one of its names is replaced.
func renamed(t testing.TB, img images.Image, from, to string) []byte {
	t.Helper()
	return rewritten(t, read(t, img.OCI()), func(name string, content []byte) []byte {
		if name != "index.json" {
			return content
		}
		return bytes.ReplaceAll(content, []byte(from), []byte(to))
	})
}

// wrongLayer replaces the layers of an archive by others.
func wrongLayer(t testing.TB, archive []byte) []byte {
	t.Helper()
	return rewritten(t, archive, func(name string, content []byte) []byte {
		switch {
		case strings.HasSuffix(name, ".tar.gz"):
			return zipped(t, tarOf(t, "other", "content"))
		case strings.HasSuffix(name, ".tar"):
			return tarOf(t, "other", "content")
		}
		return content
	})
}

func rewritten(t testing.TB, archive []byte, change func(name string, content []byte) []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		content = change(h.Name, content)
		h.Size = int64(len(content))
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write(content)
	}
	_ = w.Close()
	return b.Bytes()
}
