package image

import (
	"context"
	"fmt"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"

	"github.com/jobd/jobd/runtime"
)

// Tag gives an image that is present another name, whatever that has meant before. Who may use it under the first name may do so under
// the other one. No registry has given it under that, so it is kept as one that was imported.
func (i *Images) Tag(ctx context.Context, ref, to string) (runtime.Image, error) {
	ctx = i.inNamespace(ctx)
	stored, name, err := i.renamed(ctx, ref, to, "tag", "a digest is no name that can be given")
	if err != nil {
		return runtime.Image{}, err
	}
	if name == stored.Name {
		return i.describe(ctx, client.NewImageWithPlatform(i.client, stored, i.platform))
	}
	defer i.forget()
	if err := i.await(ctx, name); err != nil {
		return runtime.Image{}, fmt.Errorf("tag %s as %s: %w", stored.Name, name, err)
	}
	tagged := images.Image{Name: name, Target: stored.Target}
	if access := stored.Labels[labelAccess]; access != "" {
		tagged.Labels = map[string]string{labelAccess: access}
	}
	if err := i.record(ctx, tagged); err != nil {
		return runtime.Image{}, fmt.Errorf("tag %s as %s: %w", stored.Name, name, err)
	}
	return i.describe(ctx, client.NewImageWithPlatform(i.client, tagged, i.platform))
}

// renamed returns the record of an image that is to be known by another name too, and that name. A digest is none, and instead says so.
func (i *Images) renamed(ctx context.Context, ref, to, doing, instead string) (stored images.Image, name string, err error) {
	if stored, err = i.stored(ctx, ref); err != nil {
		return stored, "", err
	}
	if name, err = Normalize(to); err != nil {
		return stored, "", err
	}
	if digested(name) {
		return stored, "", fmt.Errorf("%s %s as %s: %s: %w", doing, stored.Name, name, instead, errdefs.ErrInvalidArgument)
	}
	return stored, name, nil
}

// stored returns the record of an image, and keeps it from being removed as an unused one in this moment.
func (i *Images) stored(ctx context.Context, ref string) (images.Image, error) {
	name, err := Normalize(ref)
	if err != nil {
		return images.Image{}, err
	}
	if err := i.await(ctx, name); err != nil {
		return images.Image{}, err
	}
	stored, err := i.client.ImageService().Get(ctx, name)
	if errdefs.IsNotFound(err) {
		return images.Image{}, &classed{fmt.Sprintf("there is no image %s here", name), errdefs.ErrNotFound, err}
	}
	return stored, err
}
