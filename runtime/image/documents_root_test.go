package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/testdata/images"
)

// A digest that is none ends a process that asks for its algorithm. It is refused, whatever names it.
func TestDigestsThatAreNone(t *testing.T) {
	for _, digest := range []string{"abc", "", ":", "foo:bar", "sha256:", "sha256:ab"} {
		for name, lie := range map[string]func(m map[string]any, put func(string, []byte)){
			"config": func(m map[string]any, _ func(string, []byte)) { m["config"].(map[string]any)["digest"] = digest },
			"layer": func(m map[string]any, _ func(string, []byte)) {
				m["layers"].([]any)[0].(map[string]any)["digest"] = digest
			},
			"manifest of an index": func(m map[string]any, _ func(string, []byte)) {
				clear(m)
				m["schemaVersion"], m["mediaType"] = 2, "application/vnd.oci.image.index.v1+json"
				m["manifests"] = []any{map[string]any{"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest, "size": 2}}
			},
			"layer with its data": func(m map[string]any, _ func(string, []byte)) {
				l := m["layers"].([]any)[0].(map[string]any)
				l["digest"], l["size"], l["data"] = digest, 2, []byte("{}")
			},
		} {
			t.Run(name+" "+digest, func(t *testing.T) {
				l := newLiar(t)
				l.serve(t, small(t, "content"), lie)
				i := newImages(t, Options{})
				// What nothing is served for at a digest that is none is served here.
				host := wrapped(t, l, serveAll)
				_, err := i.Ensure(t.Context(), host+"/x:1", corev1.PullIfNotPresent, nil, nil)
				if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "digest that is none") {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}

// What one image has as a layer is not read into memory as the config or the manifest of another one.
func TestConfigThatIsAStoredLayer(t *testing.T) {
	i := newImages(t, Options{})
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	content := bytes.Repeat([]byte("large"), 2<<20)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "file", Mode: 0o644, Size: int64(len(content))}), second(w.Write(content)), w.Close()); err != nil {
		t.Fatal(err)
	}
	large := layer.Bytes()
	first := small(t, "content")
	more, err := mutate.AppendLayers(first.Image, static.NewLayer(large, types.OCIUncompressedLayer))
	if err != nil {
		t.Fatal(err)
	}
	l := newLiar(t)
	l.serve(t, images.Image{Image: more}, func(map[string]any, func(string, []byte)) {})
	if _, err = i.Ensure(t.Context(), l.name(), corev1.PullIfNotPresent, nil, nil); err != nil {
		t.Fatal(err)
	}
	for name, kind := range map[string]string{
		"as a config": "application/vnd.oci.image.config.v1+json", "as a config of another type": "application/json",
		"as a config of the type of a layer": "application/vnd.oci.image.layer.v1.tar",
	} {
		t.Run(name, func(t *testing.T) {
			other := newLiar(t)
			other.serve(t, small(t, "other"), func(m map[string]any, _ func(string, []byte)) {
				m["config"] = map[string]any{"mediaType": kind, "digest": digestOf(large), "size": 100}
			})
			_, err := i.Ensure(t.Context(), other.name(), corev1.PullIfNotPresent, nil, nil)
			if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "bytes, not 100 as the image says") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// serveAll serves two bytes where a registry has nothing.
func serveAll(w http.ResponseWriter, r *http.Request) bool {
	if strings.Contains(r.URL.Path, "/manifests/1") || strings.Contains(r.URL.Path, "sha256:") && len(r.URL.Path) > 70 {
		return false
	}
	_, _ = w.Write([]byte("{}"))
	return true
}

func second(_ int, err error) error { return err }
