package image

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/opencontainers/go-digest"

	"github.com/jobd/jobd/runtime"
)

// Prune removes the images that have no user, or only says which those are. Of those that were imported or tagged by hand, which no
// registry could bring back, all says whether they go too. One that is requested meanwhile stays.
func (i *Images) Prune(ctx context.Context, users Users, all, dryRun bool) (done runtime.Pruned, err error) {
	ctx = i.inNamespace(ctx)
	now := time.Now()
	found, err := i.contents(ctx, users)
	if err != nil {
		return done, err
	}
	usage, err := i.usage(ctx)
	if err != nil {
		return done, err
	}
	stored, err := i.client.ImageService().List(ctx)
	if err != nil {
		return done, fmt.Errorf("list images: %w", err)
	}
	gone := map[digest.Digest]bool{}
	defer func() { done.Freed = usage.only(gone) }()
	for _, c := range found {
		switch {
		case c.inUse:
			continue
		case !c.pulled && !all:
			done.Kept++
			continue
		}
		names := c.names
		if !dryRun {
			if names, err = i.removeUnused(ctx, c.names, now); err != nil {
				return done, err
			}
		}
		for _, name := range names {
			at := slices.IndexFunc(stored, func(s images.Image) bool { return s.Name == name })
			if at < 0 {
				continue // it has come meanwhile
			}
			d := stored[at].Target.Digest
			done.Images = append(done.Images, runtime.Image{Name: name, Digest: d.String(), Size: usage.parts[d].size()})
			gone[d] = gone[d] || len(names) == len(c.names)
		}
	}
	return done, nil
}
