package image

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/plugins/content/local"
	"github.com/opencontainers/go-digest"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"
)

// serves is a registry that has one thing.
type serves []byte

func (s serves) Fetch(context.Context, imagespec.Descriptor) (io.ReadCloser, error) {
	return struct {
		io.ReadSeeker
		io.Closer
	}{bytes.NewReader(s), io.NopCloser(nil)}, nil
}

// What is here has to be shown by each repository once, whichever part of it is asked for.
func TestPossession(t *testing.T) {
	store, err := local.NewLabeledStore(t.TempDir(), inMemory{})
	if err != nil {
		t.Fatal(err)
	}
	blob := make([]byte, 100_000)
	for i := range blob {
		blob[i] = byte(rand.Uint32())
	}
	wrong := make([]byte, len(blob))
	for name, mediaType := range map[string]string{"a layer": imagespec.MediaTypeImageLayerGzip, "a document": imagespec.MediaTypeImageConfig} {
		t.Run(name, func(t *testing.T) {
			d := imagespec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(append([]byte(name), blob...)), Size: int64(len(name) + len(blob))}
			have := append([]byte(name), blob...)
			p := possession{store, serves(wrong), possessed("example.com/" + name)}
			if err := p.prove(t.Context(), d); err != nil {
				t.Error("what is not here: ", err)
			}
			if err := content.WriteBlob(t.Context(), store, name, bytes.NewReader(have), d); err != nil {
				t.Fatal(err)
			}
			for what, from := range map[string]serves{"something else": wrong, "nothing": nil, "less": have[:10]} {
				p.from = from
				if err := p.prove(t.Context(), d); err == nil {
					t.Errorf("%s is enough", what)
				}
			}
			p.from = serves(have)
			if err := p.prove(t.Context(), d); err != nil {
				t.Error(err)
			}
			if err := p.shown(t.Context(), d); err != nil {
				t.Error(err)
			}
			p.from = nil
			if err := p.prove(t.Context(), d); err != nil {
				t.Error("the second time: ", err)
			}
		})
	}
}

// inMemory are the labels of a content store, in memory.
type inMemory map[digest.Digest]map[string]string

func (l inMemory) Get(d digest.Digest) (map[string]string, error)   { return l[d], nil }
func (l inMemory) Set(d digest.Digest, set map[string]string) error { l[d] = set; return nil }
func (l inMemory) Update(d digest.Digest, set map[string]string) (map[string]string, error) {
	if l[d] == nil {
		l[d] = map[string]string{}
	}
	for name, value := range set {
		l[d][name] = value
	}
	return l[d], nil
}
