package image

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"
)

const (
	// maxValues bounds the values of an index, a manifest or a config: three bytes of JSON may stand for a descriptor, which
	// takes forty times as many in memory.
	maxValues = 100_000
	// maxLayers is how many layers an overlay of Linux can have.
	maxLayers = 500
)

// documents is a content store that gives only indexes, manifests and configs that can be decoded without harm, whatever type they
// claim to be: what one image has as a layer may be the config of another one. Layers are read by others, which have a store of
// their own. containerd reads some of these documents in goroutines of its own, and ends the process for a digest that is none.
type documents struct{ content.Store }

func (d documents) ReaderAt(ctx context.Context, of imagespec.Descriptor) (content.ReaderAt, error) {
	if err := of.Digest.Validate(); err != nil {
		return nil, fmt.Errorf("the image names a digest that is none: %w: %w", err, errdefs.ErrInvalidArgument)
	}
	r, err := d.Store.ReaderAt(ctx, of)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if err := checkSize("metadata", r.Size()); err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(content.NewReader(r))
	if err != nil {
		return nil, err
	}
	if err := checkDocument(raw); err != nil {
		return nil, err
	}
	return document{bytes.NewReader(raw)}, nil
}

// Update changes nothing where nothing is said: containerd would take off all labels.
func (d documents) Update(ctx context.Context, info content.Info, fields ...string) (content.Info, error) {
	if len(fields) == 0 && len(info.Labels) == 0 {
		return d.Info(ctx, info.Digest)
	}
	return d.Store.Update(ctx, info, fields...)
}

type document struct{ *bytes.Reader }

func (document) Close() error { return nil }

// checkDocument returns an error for an index, a manifest or a config that must not be decoded by others. What is no such thing at
// all they find out themselves.
func checkDocument(raw []byte) error {
	if n := values(raw); n > maxValues {
		return fmt.Errorf("a manifest or config of the image has more than %d values: %w", maxValues, errdefs.ErrInvalidArgument)
	}
	// Each is decoded as it is decoded by those who read it. An error leaves what has been decoded so far, for which it is no
	// reason not to be checked.
	var index imagespec.Index
	_ = json.Unmarshal(raw, &index)
	var manifest imagespec.Manifest
	_ = json.Unmarshal(raw, &manifest)
	var config imagespec.Image
	_ = json.Unmarshal(raw, &config)

	named := append(append([]imagespec.Descriptor{}, index.Manifests...), manifest.Layers...)
	for _, d := range []*imagespec.Descriptor{index.Subject, manifest.Subject} {
		if d != nil {
			named = append(named, *d)
		}
	}
	if manifest.Config.Digest != "" || len(manifest.Layers) > 0 {
		named = append(named, manifest.Config)
	}
	for _, d := range named {
		if err := checkNamed(d); err != nil {
			return err
		}
		if len(d.Data) > 0 { // is taken for what it describes
			if err := checkDocument(d.Data); err != nil {
				return err
			}
		}
	}
	if n := len(manifest.Layers); n > maxLayers {
		return fmt.Errorf("the image has %d layers, more than the %d of which Linux can make one file system: %w",
			n, maxLayers, errdefs.ErrInvalidArgument)
	}
	for _, id := range config.RootFS.DiffIDs {
		if err := checkDigestOf("a layer", id); err != nil {
			return err
		}
	}
	return nil
}

// checkNamed returns an error for a descriptor that must not be fetched or looked up.
func checkNamed(d imagespec.Descriptor) error {
	if d.Size < 0 {
		return fmt.Errorf("the image has a part of %d bytes: %w", d.Size, errdefs.ErrInvalidArgument)
	}
	return checkDigestOf("a part", d.Digest)
}

func checkDigestOf(what string, d digest.Digest) error {
	if err := d.Validate(); err != nil {
		return fmt.Errorf("%s of the image has a digest that is none (%.80q): %w: %w", what, d.String(), err, errdefs.ErrInvalidArgument)
	}
	return nil
}

// values returns how many values JSON has, roughly: each but the first of an object or a list comes after a comma, and each object
// and list is one.
func values(raw []byte) (n int) {
	inString := false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case !inString && (c == ',' || c == '{' || c == '['):
			n++
		}
	}
	return n
}

// withDocuments returns a client for the same containerd that reads only documents, and keeps the layers that it finds.
func withDocuments(c *client.Client, snapshotter string) *client.Client {
	own, err := client.New("", client.WithDefaultNamespace(c.DefaultNamespace()), client.WithServices(
		client.WithContentStore(documents{c.ContentStore()}),
		client.WithSnapshotters(map[string]snapshots.Snapshotter{
			snapshotter: found{c.SnapshotService(snapshotter), snapshotter, c.LeasesService()},
		}),
		client.WithImageStore(c.ImageService()),
		client.WithContainerStore(c.ContainerService()),
		client.WithNamespaceService(c.NamespaceService()),
		client.WithDiffService(c.DiffService()),
		client.WithEventService(c.EventService()),
		client.WithLeasesService(c.LeasesService()),
		client.WithIntrospectionService(c.IntrospectionService()),
	))
	if err != nil {
		panic(err) // it has all that it asks for, and connects to nothing
	}
	return own
}
