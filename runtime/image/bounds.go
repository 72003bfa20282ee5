package image

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"
)

// maxMetadata bounds an index, a manifest, a config and any other answer of a registry that is not a layer, since all
// of them are held in memory, and take many times their size when they are decoded. Registries accept no larger
// manifests either.
const maxMetadata = 4 << 20

// checkSize returns an error for metadata that is too large to be read.
func checkSize(what string, size int64) error {
	if size > maxMetadata {
		return fmt.Errorf("the %s of the image has %d bytes, which is more than %d: %w",
			what, size, maxMetadata, errdefs.ErrInvalidArgument)
	}
	return nil
}

// checkDescriptor checks what is announced before it is fetched.
func checkDescriptor(d imagespec.Descriptor) error {
	switch {
	case images.IsIndexType(d.MediaType):
		return checkSize("index", d.Size)
	case images.IsManifestType(d.MediaType):
		return checkSize("manifest", d.Size)
	case images.IsConfigType(d.MediaType):
		return checkSize("config", d.Size)
	}
	return nil
}

// metadata is a content store from which only metadata is read: what is too large is not opened, whatever type it
// claims to be.
type metadata struct{ content.Provider }

func (m metadata) ReaderAt(ctx context.Context, d imagespec.Descriptor) (content.ReaderAt, error) {
	r, err := m.Provider.ReaderAt(ctx, d)
	if err != nil {
		return nil, err
	}
	if err := checkSize("metadata", r.Size()); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// metadata returns the content store for indexes, manifests and configs.
func (i *Images) metadata() metadata { return metadata{i.client.ContentStore()} }

// manifest reads the manifest of an image for this machine, and checks that its config can be read.
func (i *Images) manifest(ctx context.Context, target imagespec.Descriptor) (imagespec.Manifest, error) {
	m, err := images.Manifest(ctx, i.metadata(), target, i.platform)
	if err != nil {
		return m, err
	}
	return m, checkSize("config", m.Config.Size)
}

// isBlob reports whether a request is for a blob, even if the registry has redirected it.
func isBlob(req *http.Request) bool {
	for req.Response != nil && req.Response.Request != nil {
		req = req.Response.Request
	}
	return strings.Contains(req.URL.Path, "/blobs/")
}
