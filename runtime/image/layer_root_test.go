package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/testdata/images"
)

// What a layer takes of memory while it is unpacked is bounded, whether it is pulled or imported, and layers of zstd are unpacked.
func TestLayersThatTakeMemory(t *testing.T) {
	var plain bytes.Buffer
	w := tar.NewWriter(&plain)
	if err := w.WriteHeader(&tar.Header{Name: "added", Typeflag: tar.TypeReg, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	large := func(level zstd.EncoderLevel, window int) []byte {
		var b bytes.Buffer
		w, err := zstd.NewWriter(&b, zstd.WithEncoderLevel(level), zstd.WithWindowSize(window))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write(plain.Bytes()[:512])
		_ = w.Flush() // so that the size is not known
		_, _ = w.Write(plain.Bytes()[512:])
		_ = w.Close()
		return b.Bytes()
	}
	var records bytes.Buffer
	z := gzip.NewWriter(&records)
	if _, err := io.Copy(z, archiveOf(0, func(add func(tar.Header)) {
		for range 280 {
			add(tar.Header{Name: "a/", PAXRecords: map[string]string{"comment": strings.Repeat("a", 1_040_000)}})
		}
	})); err != nil {
		t.Fatal(err)
	}
	_ = z.Close()
	for name, c := range map[string]struct {
		layer []byte
		kind  types.MediaType
		want  string // empty if it is taken
	}{
		"zstd":                     {large(zstd.SpeedDefault, 8<<20), types.OCILayerZStd, ""},
		"zstd --long":              {large(zstd.SpeedDefault, 128<<20), types.OCILayerZStd, ""},
		"zstd with a large window": {large(zstd.SpeedDefault, 512<<20), types.OCILayerZStd, "window size exceeded"},
		"one that says it is gzip": {large(zstd.SpeedDefault, 512<<20), types.OCILayer, "window size exceeded"},
		"one that says nothing":    {large(zstd.SpeedDefault, 512<<20), types.DockerUncompressedLayer, "window size exceeded"},
		"records":                  {records.Bytes(), types.OCILayer, "too large entries"},
	} {
		t.Run(name, func(t *testing.T) {
			i := newImages(t, Options{})
			img := small(t, "content", "example.com/a:1")
			more, err := mutate.AppendLayers(img.Image, decoded{static.NewLayer(c.layer, c.kind), digestOf(plain.Bytes())})
			if err != nil {
				t.Fatal(err)
			}
			img = images.Image{Image: more, Names: img.Names}
			l := newLiar(t)
			l.serve(t, img, func(map[string]any, func(string, []byte)) {})
			check := func(how string, err error) {
				t.Helper()
				if c.want == "" && err != nil || c.want != "" && (!errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("%s: %v", how, err)
				}
			}
			_, err = i.Ensure(t.Context(), l.name(), corev1.PullIfNotPresent, nil, nil)
			check("pull", err)
			var oci bytes.Buffer
			if err := images.WriteOCI(&oci, img); err != nil {
				t.Fatal(err)
			}
			_, err = i.Import(t.Context(), &oci, "")
			check("import", err)
		})
	}
}

// decoded is a layer whose content is something else than what it is stored as.
type decoded struct {
	v1.Layer
	diffID string
}

func (d decoded) DiffID() (v1.Hash, error) { return v1.NewHash(d.diffID) }
