package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/testdata/images"
)

// withLayer puts a layer of some entries on an image. Each regular file has a few bytes.
func withLayer(t *testing.T, img images.Image, entries ...tar.Header) images.Image {
	t.Helper()
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, h := range entries {
		content := ""
		if h.Typeflag == tar.TypeReg {
			content = "of the layer\n"
		}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		h.Size = int64(len(content))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	more, err := mutate.AppendLayers(img.Image, l)
	if err != nil {
		t.Fatal(err)
	}
	return images.Image{Image: more, Names: img.Names}
}

// A layer writes, links and removes nothing outside the image, whether it is taken or refused.
func TestLayersStayInTheirImage(t *testing.T) {
	host := t.TempDir()
	up := strings.Repeat("../", 40)
	file, dir, link, hard := byte(tar.TypeReg), byte(tar.TypeDir), byte(tar.TypeSymlink), byte(tar.TypeLink)
	for name, entries := range map[string][]tar.Header{
		"a file above the root":               {{Typeflag: file, Name: up + host[1:] + "/made"}},
		"a file by its whole path":            {{Typeflag: file, Name: host + "/made"}},
		"a file above, by way of a directory": {{Typeflag: dir, Name: "d"}, {Typeflag: file, Name: "d/" + up + host[1:] + "/made"}},
		"a directory above the root":          {{Typeflag: dir, Name: up + host[1:] + "/made"}},
		"a file behind a symlink":             {{Typeflag: link, Name: "l", Linkname: host}, {Typeflag: file, Name: "l/made"}},
		"a file behind a symlink upwards":     {{Typeflag: link, Name: "l", Linkname: up + host[1:]}, {Typeflag: file, Name: "l/made"}},
		"a file in the place of a symlink":    {{Typeflag: link, Name: "l", Linkname: host + "/kept"}, {Typeflag: file, Name: "l"}},
		"a file behind many symlinks": {
			{Typeflag: link, Name: "a", Linkname: "b"}, {Typeflag: link, Name: "b", Linkname: "c/../../.."},
			{Typeflag: link, Name: "c", Linkname: "/"}, {Typeflag: file, Name: "a/" + up + host[1:] + "/made"},
		},
		"a symlink that leads to itself":    {{Typeflag: link, Name: "l", Linkname: "l"}, {Typeflag: file, Name: "l/made"}},
		"a hard link to a file of the host": {{Typeflag: hard, Name: "h", Linkname: host + "/kept"}, {Typeflag: file, Name: "h"}},
		"a hard link above the root":        {{Typeflag: hard, Name: "h", Linkname: up + host[1:] + "/kept"}, {Typeflag: file, Name: "h"}},
		"a hard link by way of a symlink": {
			{Typeflag: link, Name: "l", Linkname: host}, {Typeflag: hard, Name: "h", Linkname: "l/kept"},
			{Typeflag: file, Name: "h"},
		},
		"a whiteout above the root":   {{Typeflag: file, Name: up + host[1:] + "/.wh.kept"}},
		"a whiteout behind a symlink": {{Typeflag: link, Name: "l", Linkname: host}, {Typeflag: file, Name: "l/.wh.kept"}},
		"a whiteout of what is above": {
			{Typeflag: file, Name: "d/.wh..."}, {Typeflag: file, Name: ".wh...."}, {Typeflag: file, Name: ".wh.."},
			{Typeflag: file, Name: ".wh."},
		},
		"a whiteout of all behind a symlink": {{Typeflag: link, Name: "l", Linkname: host}, {Typeflag: file, Name: "l/.wh..wh..opq"}},
		"a whiteout that is a symlink":       {{Typeflag: link, Name: ".wh.content", Linkname: host + "/kept"}},
		"devices": {
			{Typeflag: tar.TypeBlock, Name: "disk", Devmajor: 8}, {Typeflag: tar.TypeChar, Name: "mem", Devmajor: 1, Devminor: 1},
			{Typeflag: tar.TypeFifo, Name: "pipe"},
		},
		"a character device that is no device": {{Typeflag: tar.TypeChar, Name: "content"}},
		"attributes of the overlay": {
			{
				Typeflag: dir, Name: "d",
				PAXRecords: map[string]string{"SCHILY.xattr.trusted.overlay.redirect": "/../.." + host, "SCHILY.xattr.trusted.overlay.opaque": "y"},
			},
		},
		"attributes of the system": {
			{
				Typeflag: file, Name: "f",
				PAXRecords: map[string]string{
					"SCHILY.xattr.security.capability": "\x01\x00\x00\x02\xff\xff\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00",
					"SCHILY.xattr.security.selinux":    "x",
				},
			},
		},
		"an owner that is none":      {{Typeflag: file, Name: "f", Uid: 1 << 31, Gid: 1 << 31}},
		"a name of many directories": {{Typeflag: file, Name: strings.Repeat("d/", 3000) + "f"}},
		"one name many times": {
			{Typeflag: dir, Name: "x"}, {Typeflag: file, Name: "x"}, {Typeflag: link, Name: "x", Linkname: host},
			{Typeflag: dir, Name: "x"}, {Typeflag: file, Name: "x/made"},
		},
		"the root itself": {{Typeflag: link, Name: ".", Linkname: host}, {Typeflag: link, Name: "d/..", Linkname: host}, {Typeflag: file, Name: "made"}},
	} {
		t.Run(name, func(t *testing.T) {
			kept := filepath.Join(host, "kept")
			if err := os.WriteFile(kept, []byte("of the host\n"), 0o640); err != nil {
				t.Fatal(err)
			}
			i := newImages(t, Options{})
			img := withLayer(t, small(t, "lowest", "example.com/hostile:1"), entries...)
			_, err := i.Import(t.Context(), img.Docker(), "")
			if err == nil {
				_, err = i.Ensure(t.Context(), "example.com/hostile:1", corev1.PullNever, nil, nil)
			}
			t.Log(err)
			found := 0
			if err := filepath.WalkDir(host, func(path string, e fs.DirEntry, err error) error {
				found++
				if path != host && path != kept {
					t.Errorf("it has made %s", path)
				}
				return err
			}); err != nil || found != 2 {
				t.Errorf("the host's directory has %d entries: %v", found, err)
			}
			info, err := os.Stat(kept)
			content, _ := os.ReadFile(kept)
			if err != nil || info.Mode() != 0o640 || string(content) != "of the host\n" {
				t.Errorf("the host's file is %v with %q: %v", info, content, err)
			}
		})
	}
}

// liar is a registry that answers with what it likes, whatever its digest.
type liar struct {
	*httptest.Server
	mu       sync.Mutex
	blobs    map[string][]byte // by path
	asked    int
	redirect string // of all blobs, if any
}

func newLiar(t *testing.T) *liar {
	l := &liar{blobs: map[string][]byte{}}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.asked++
		content, ok := l.blobs[r.URL.Path]
		switch {
		case l.redirect != "" && strings.Contains(r.URL.Path, "/blobs/"):
			w.Header().Set("Location", l.redirect)
			w.WriteHeader(http.StatusTemporaryRedirect)
		case !ok:
			w.WriteHeader(http.StatusNotFound)
		default:
			var kind struct{ MediaType string }
			_ = json.Unmarshal(content, &kind)
			w.Header().Set("Content-Type", kind.MediaType)
			w.Header().Set("Content-Length", strconv.Itoa(len(content)))
			_, _ = w.Write(content)
		}
	}))
	t.Cleanup(l.Close)
	return l
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (l *liar) put(path string, content []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blobs["/v2/x/"+path] = content
}

// serve offers an image as x:1, with a manifest that may lie.
func (l *liar) serve(t *testing.T, img images.Image, lie func(manifest map[string]any, put func(path string, content []byte))) {
	t.Helper()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range layers {
		digest, err := layer.Digest()
		if err != nil {
			t.Fatal(err)
		}
		r, err := layer.Compressed()
		if err != nil {
			t.Fatal(err)
		}
		l.put("blobs/"+digest.String(), read(t, r))
	}
	config, err := img.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	l.put("blobs/"+digestOf(config), config)
	raw, err := img.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	manifest := map[string]any{}
	if err := json.Unmarshal(raw, &manifest); err != nil {
		t.Fatal(err)
	}
	lie(manifest, l.put)
	if raw, err = json.Marshal(manifest); err != nil {
		t.Fatal(err)
	}
	l.put("manifests/1", raw)
	l.put("manifests/"+digestOf(raw), raw)
}

func (l *liar) name() string { return strings.TrimPrefix(l.URL, "http://") + "/x:1" }

// A registry that lies about digests and sizes is found out.
func TestRegistriesThatLie(t *testing.T) {
	part := func(manifest map[string]any, which string) map[string]any {
		if which == "config" {
			return manifest["config"].(map[string]any)
		}
		return manifest["layers"].([]any)[0].(map[string]any)
	}
	other := bytes.Repeat([]byte("other"), 1000)
	lies := map[string]func(manifest map[string]any, put func(string, []byte)){}
	for _, which := range []string{"config", "layer"} {
		lies["another "+which] = func(m map[string]any, put func(string, []byte)) {
			put("blobs/"+part(m, which)["digest"].(string), other)
		}
		lies["a digest of a "+which+" that is a path"] = func(m map[string]any, _ func(string, []byte)) {
			part(m, which)["digest"] = "sha256:../../../../etc/passwd"
		}
		lies["a digest of a "+which+" by an algorithm that is none"] = func(m map[string]any, _ func(string, []byte)) {
			part(m, which)["digest"] = "md5:d41d8cd98f00b204e9800998ecf8427e"
		}
		for what, size := range map[string]float64{"smaller": 1, "larger": 1 << 20, "negative": -1, "endless": 1 << 62} {
			lies["a "+what+" size of a "+which] = func(m map[string]any, _ func(string, []byte)) { part(m, which)["size"] = size }
		}
	}
	lies["a layer that is its config"] = func(m map[string]any, _ func(string, []byte)) {
		part(m, "layer")["digest"], part(m, "layer")["size"] = part(m, "config")["digest"], part(m, "config")["size"]
	}
	lies["more layers than the config has"] = func(m map[string]any, _ func(string, []byte)) {
		m["layers"] = append(m["layers"].([]any), m["layers"].([]any)[0])
	}
	lies["no layers"] = func(m map[string]any, _ func(string, []byte)) { m["layers"] = []any{} }
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			l := newLiar(t)
			l.serve(t, small(t, "content"), lie)
			i := newImages(t, Options{})
			if _, err := i.Ensure(t.Context(), l.name(), corev1.PullIfNotPresent, nil, nil); err == nil {
				t.Error("it is believed")
			} else {
				t.Log(err)
			}
		})
	}
	t.Run("another manifest than the digest that is asked for", func(t *testing.T) {
		l := newLiar(t)
		l.serve(t, small(t, "content"), func(map[string]any, func(string, []byte)) {})
		wanted := "sha256:" + strings.Repeat("a", 64)
		l.put("manifests/"+wanted, l.blobs["/v2/x/manifests/1"])
		i := newImages(t, Options{})
		if _, err := i.Ensure(t.Context(), strings.TrimSuffix(l.name(), ":1")+"@"+wanted, corev1.PullIfNotPresent, nil, nil); err == nil {
			t.Error("it is believed")
		}
	})
}

// Indexes of indexes come to an end.
func TestIndexesOfIndexes(t *testing.T) {
	const indexType = "application/vnd.oci.image.index.v1+json"
	build := func(t *testing.T, levels, width int) (*liar, images.Image) {
		l := newLiar(t)
		img := small(t, "content")
		l.serve(t, img, func(map[string]any, func(string, []byte)) {})
		inner := l.blobs["/v2/x/manifests/1"]
		kind := "application/vnd.oci.image.manifest.v1+json"
		for range levels {
			var list []any
			for i := range width {
				list = append(list, map[string]any{
					"mediaType": kind, "digest": digestOf(inner), "size": len(inner), "annotations": map[string]string{"n": strconv.Itoa(i)},
				})
			}
			raw, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": indexType, "manifests": list})
			if err != nil {
				t.Fatal(err)
			}
			inner, kind = raw, indexType
			l.put("manifests/"+digestOf(inner), inner)
		}
		l.put("manifests/1", inner)
		return l, img
	}
	for _, c := range []struct{ levels, width, most int }{{80, 1, 300}, {80, 2, 300}, {5, 50, 300}} {
		t.Run(fmt.Sprintf("%d levels of %d", c.levels, c.width), func(t *testing.T) {
			l, _ := build(t, c.levels, c.width)
			i := newImages(t, Options{})
			_, err := i.Ensure(t.Context(), l.name(), corev1.PullIfNotPresent, nil, nil)
			t.Log(err, l.asked)
			if l.asked > c.most {
				t.Errorf("the registry was asked %d times", l.asked)
			}
		})
	}
}

// Where a registry sends its clients is told nothing, and what is there is not shown.
func TestRedirectsOfARegistry(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("of the host"), 0o600); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	heard, asked := "", 0
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		heard += r.Header.Get("Authorization") + r.Header.Get("Cookie")
		if strings.HasSuffix(r.URL.Path, "/loop") {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, "of the host")
	}))
	defer service.Close()
	elsewhere := strings.Replace(service.URL, "127.0.0.1", "localhost", 1)
	for name, to := range map[string]string{
		"to a file": "file://" + secret, "to another host": elsewhere + "/latest/meta-data", "in a circle": elsewhere + "/loop",
		"to another protocol": "gopher://127.0.0.1/x", "to a socket": "unix:///run/jobd/jobd.sock", "nowhere": "",
	} {
		t.Run(name, func(t *testing.T) {
			l := newLiar(t)
			l.serve(t, small(t, "content"), func(map[string]any, func(string, []byte)) {})
			if l.redirect = to; to == "" {
				l.redirect = "http://"
			}
			config := filepath.Join(t.TempDir(), "config.json")
			host := strings.TrimPrefix(l.URL, "http://")
			if err := os.WriteFile(config, fmt.Appendf(nil, `{"auths":{%q:{"auth":"bWU6c2VjcmV0"}}}`, host), 0o600); err != nil {
				t.Fatal(err)
			}
			i := newImages(t, Options{DockerConfigPath: config})
			_, err := i.Ensure(t.Context(), l.name(), corev1.PullIfNotPresent, nil, nil)
			if err == nil || strings.Contains(err.Error(), "of the host") {
				t.Errorf("got %v", err)
			}
			t.Log(err)
		})
	}
	if heard != "" || asked > 0 {
		t.Errorf("another host was asked %d times, and told %q", asked, heard)
	}
}

// TestImagesOfTheLink: whoever names an image does not make the daemon ask what only this machine is told.
func TestImagesOfTheLink(t *testing.T) {
	i := newImages(t, Options{})
	for _, name := range []string{"169.254.169.254/latest/meta-data:1", "169.254.169.254:80/x", "[fe80::1]:5000/x", "[fd00:ec2::254]/x"} {
		_, err := i.Ensure(t.Context(), name, corev1.PullIfNotPresent, nil, nil)
		if !errdefs.IsPermissionDenied(err) || !strings.Contains(err.Error(), "only a hosts.toml can allow") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRegistriesLeadNowhereElse: a registry does not make the daemon ask what only this machine may ask, by no means that it has,
// unless a hosts.toml names the place.
func TestRegistriesLeadNowhereElse(t *testing.T) {
	var asked atomic.Int64
	internal := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Authorization") != "" {
			t.Error("it is shown what is for the registry")
		}
		_, _ = io.WriteString(w, `{"access_token": "of the host", "errors": [{"message": "of the host"}]}`)
	}))
	defer internal.Close()
	_, port, _ := net.SplitHostPort(internal.Listener.Addr().String())
	for _, host := range []string{"127.0.0.1", "localhost", "127.9.9.9", "0.0.0.0", "[::ffff:127.0.0.1]", "[::127.0.0.1]", "[::1]"} {
		at := "http://" + host + ":" + port + "/internal"
		for _, means := range []string{"realm", "redirect of a manifest", "redirect of a blob", "urls"} {
			t.Run(means+" to "+host, func(t *testing.T) {
				l := newLiar(t)
				l.serve(t, small(t, "content"), func(manifest map[string]any, _ func(string, []byte)) {
					if means == "urls" {
						for _, layer := range manifest["layers"].([]any) {
							layer := layer.(map[string]any)
							layer["mediaType"], layer["urls"] = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", []string{at}
						}
					}
				})
				inner := l.Config.Handler
				l.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch {
					case means == "realm" && r.Header.Get("Authorization") == "":
						w.Header().Set("WWW-Authenticate", `Bearer realm="`+at+`",service="x",scope="y"`)
						w.WriteHeader(http.StatusUnauthorized)
					case means == "redirect of a manifest" && strings.Contains(r.URL.Path, "/manifests/"):
						http.Redirect(w, r, at, http.StatusTemporaryRedirect)
					case means == "redirect of a blob" && strings.Contains(r.URL.Path, "/blobs/"):
						http.Redirect(w, r, at, http.StatusTemporaryRedirect)
					default:
						inner.ServeHTTP(w, r)
					}
				})
				i := newImages(t, Options{})
				_, err := i.Ensure(t.Context(), l.name(), corev1.PullIfNotPresent, nil, nil)
				switch {
				case means == "urls" && err != nil:
					t.Errorf("the registry has the layer: %v", err)
				case means != "urls" &&
					(err == nil || !strings.Contains(err.Error(), "only a hosts.toml can allow") || strings.Contains(err.Error(), "of the host")):
					t.Errorf("got %v", err)
				}
			})
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("the internal service was asked %d times", n)
	}
	t.Run("what a hosts.toml names", func(t *testing.T) {
		l := newLiar(t)
		l.serve(t, small(t, "content"), func(map[string]any, func(string, []byte)) {})
		l.redirect = internal.URL + "/blob"
		host := strings.TrimPrefix(l.URL, "http://")
		hosts := t.TempDir()
		dir := filepath.Join(hosts, strings.Replace(host, ":", "_", 1)+"_")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		toml := fmt.Sprintf("server = %q\n[host.%q]\ncapabilities = []\n", l.URL, internal.URL)
		if err := os.WriteFile(filepath.Join(dir, "hosts.toml"), []byte(toml), 0o644); err != nil {
			t.Fatal(err)
		}
		i := newImages(t, Options{HostsDir: hosts})
		_, err := i.Ensure(t.Context(), l.name(), corev1.PullIfNotPresent, nil, nil)
		if asked.Load() == 0 {
			t.Errorf("it is not asked: %v", err)
		}
	})
}
