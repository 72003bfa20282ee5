package image

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"
	corev1 "k8s.io/api/core/v1"
)

// index serves an image as x:1 in an index, which is in another one, and so on. Each names very many other images.
func (l *liar) index(t *testing.T, levels, others int) (top digest.Digest) {
	t.Helper()
	l.serve(t, small(t, "content"), func(map[string]any, func(string, []byte)) {})
	inner, kind := l.blobs["/v2/x/manifests/1"], "application/vnd.oci.image.manifest.v1+json"
	for level := range levels {
		list := []any{map[string]any{"mediaType": kind, "digest": digestOf(inner), "size": len(inner), "platform": platforms.DefaultSpec()}}
		for n := range others {
			list = append(list, map[string]any{
				"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": fmt.Sprintf("sha256:%032x%032x", level, n), "size": 2,
				"platform": imagespec.Platform{OS: "linux", Architecture: "none"},
			})
		}
		raw, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": list})
		if err != nil {
			t.Fatal(err)
		}
		inner, kind = raw, "application/vnd.oci.image.index.v1+json"
		l.put("manifests/"+digestOf(inner), inner)
	}
	l.put("manifests/1", inner)
	return digest.Digest(digestOf(inner))
}

// What an index names and nobody fetches is not written down: containerd's database is copied as a whole whenever an image changes,
// and its collector holds all of it in memory. What is fetched is kept.
func TestIndexesOfVeryManyImages(t *testing.T) {
	l := newLiar(t)
	top := l.index(t, 2, 14_000)
	i := newImages(t, Options{})
	for range 2 { // the second time all of it is there
		if _, err := i.Pull(t.Context(), l.name(), nil); err != nil {
			t.Fatal(err)
		}
		info, err := i.content.Info(i.inNamespace(t.Context()), top)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(info.Labels); n > 4 {
			t.Errorf("the index has %d labels", n)
		}
		if err := i.sweep(i.inNamespace(t.Context())); err != nil {
			t.Fatal(err)
		}
		i.forget()
		if _, err := i.Ensure(t.Context(), l.name(), corev1.PullNever, nil, nil); err != nil {
			t.Errorf("after a collection: %v", err)
		}
		index := imagespec.Descriptor{MediaType: imagespec.MediaTypeImageIndex, Digest: top, Size: info.Size}
		if _, err := i.manifest(i.inNamespace(t.Context()), index); err != nil {
			t.Errorf("after a collection: %v", err)
		}
	}
}

func TestIndexesInIndexesAreFew(t *testing.T) {
	for levels, allowed := range map[int]bool{maxIndexes: true, maxIndexes + 1: false} {
		l := newLiar(t)
		l.index(t, levels, 1)
		_, err := newImages(t, Options{}).Ensure(t.Context(), l.name(), corev1.PullIfNotPresent, nil, nil)
		if allowed && err != nil || !allowed && (!errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "more than 8 times")) {
			t.Errorf("%d levels: %v", levels, err)
		}
	}
}
