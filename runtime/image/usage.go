package image

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/jobd/jobd/runtime"
)

// parts are what an image has on the disk, with their sizes in bytes: what was downloaded or imported, and each layer as it is unpacked.
type parts map[string]int64

func (p parts) size() (n int64) {
	for _, size := range p {
		n += size
	}
	return n
}

// usage is what the images have on the disk, by the digests that their names stand for.
type usage struct {
	names map[digest.Digest][]string
	parts map[digest.Digest]parts
	of    map[string]int // how many images have a part
}

// Usage returns what the images have on the disk, one for each content with all its names.
func (i *Images) Usage(ctx context.Context) (list []runtime.ImageUsage, err error) {
	u, err := i.usage(i.inNamespace(ctx))
	if err != nil {
		return nil, err
	}
	for d, parts := range u.parts {
		one := runtime.ImageUsage{Names: u.names[d], Size: parts.size()}
		for part, size := range parts {
			if u.of[part] > 1 {
				one.Shared += size
			}
		}
		list = append(list, one)
	}
	return list, nil
}

// only returns what no other images have than these.
func (u usage) only(these map[digest.Digest]bool) int64 {
	holders, all := map[string]int{}, parts{}
	for d := range these {
		for part, size := range u.parts[d] {
			holders[part]++
			all[part] = size
		}
	}
	maps.DeleteFunc(all, func(part string, _ int64) bool { return holders[part] < u.of[part] })
	return all.size()
}

func (i *Images) usage(ctx context.Context) (usage, error) {
	u := usage{map[digest.Digest][]string{}, map[digest.Digest]parts{}, map[string]int{}}
	stored, err := i.client.ImageService().List(ctx)
	if err != nil {
		return u, fmt.Errorf("list images: %w", err)
	}
	for _, s := range stored {
		d := s.Target.Digest
		u.names[d] = append(u.names[d], s.Name)
		if u.parts[d] != nil {
			continue
		}
		p := parts{}
		if err := i.partsOf(ctx, s.Target, p); err != nil && !errdefs.IsNotFound(err) {
			return u, fmt.Errorf("image %s: %w", s.Name, err)
		}
		u.parts[d] = p
		for part := range p {
			u.of[part]++
		}
	}
	for _, names := range u.names {
		slices.Sort(names)
	}
	return u, nil
}

// partsOf adds what an image has. Of an image for several platforms that is what is here.
func (i *Images) partsOf(ctx context.Context, target imagespec.Descriptor, p parts) error {
	return images.Walk(ctx, images.HandlerFunc(func(ctx context.Context, d imagespec.Descriptor) ([]imagespec.Descriptor, error) {
		info, err := i.content.Info(ctx, d.Digest)
		switch {
		case errdefs.IsNotFound(err):
			return nil, images.ErrSkipDesc
		case err != nil:
			return nil, err
		}
		p[d.Digest.String()] = info.Size
		if images.IsConfigType(d.MediaType) {
			return nil, i.unpackedParts(ctx, d, p)
		}
		return images.Children(ctx, i.client.ContentStore(), d)
	}), target)
}

// unpackedParts adds the layers of a config, as far as they are unpacked.
func (i *Images) unpackedParts(ctx context.Context, d imagespec.Descriptor, p parts) error {
	raw, err := content.ReadBlob(ctx, i.client.ContentStore(), d)
	if err != nil {
		return err
	}
	var config imagespec.Image
	if err := json.Unmarshal(raw, &config); err != nil {
		return nil // it can be removed, if nothing else
	}
	layers := i.client.SnapshotService(i.options.Snapshotter)
	for _, chain := range identity.ChainIDs(slices.Clone(config.RootFS.DiffIDs)) {
		used, err := layers.Usage(ctx, chain.String())
		switch {
		case err == nil:
			p["unpacked "+chain.String()] = used.Size
		case !errdefs.IsNotFound(err):
			return err
		}
	}
	return nil
}
