package image

import (
	"context"
	"fmt"

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
	if err := checkNamed(d); err != nil {
		return err
	}
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

// manifest reads the manifest of an image for this machine, and checks that its config can be read.
func (i *Images) manifest(ctx context.Context, target imagespec.Descriptor) (imagespec.Manifest, error) {
	m, err := images.Manifest(ctx, i.client.ContentStore(), target, i.platform)
	if err != nil {
		return m, err
	}
	return m, checkSize("config", m.Config.Size)
}
