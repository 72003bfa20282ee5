package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/crash"
)

// Pull asks the registry what a name stands for now, and fetches what is missing of it. Progress is as for Ensure.
func (i *Images) Pull(ctx context.Context, ref string, progress func(string)) (runtime.Image, error) {
	name, err := Normalize(ref)
	if err != nil {
		return runtime.Image{}, err
	}
	if err := i.await(ctx, name); err != nil {
		return runtime.Image{}, err
	}
	defer i.use(name)
	return i.pull(ctx, name, nil, progress)
}

func (i *Images) pull(ctx context.Context, name string, own keyring, progress func(string)) (runtime.Image, error) {
	// What was given for some credentials is not for those who have others.
	return i.flights.do(ctx, "pull "+name+own.id(), progress, func(ctx context.Context, report func(string)) (runtime.Image, error) {
		ctx = i.inNamespace(ctx)
		report("Pulling " + name)
		t := &transfer{name: name, report: report}
		defer i.transfers.begin(t)()
		img, err := i.fetchWithAny(ctx, name, own, t)
		if err == nil {
			return img, nil
		}
		err = i.pullError(name, err, t)
		switch {
		case errdefs.IsDataLoss(err):
			i.abandon(ctx, t)
		case errors.Is(err, syscall.ENOSPC):
			i.abandon(ctx, t) // frees space, which the rest of the machine lacks too
			i.options.DiskFull()
		}
		return runtime.Image{}, err
	})
}

// fetchWithAny tries the credentials that match the name, one after the other.
func (i *Images) fetchWithAny(ctx context.Context, name string, own keyring, t *transfer) (runtime.Image, error) {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return runtime.Image{}, err
	}
	try := &tries{found: map[string][]credential{}, find: func(host string) ([]credential, error) {
		return i.credentials(ctx, own, host, reference.Path(named))
	}}
	for {
		img, err := i.fetch(ctx, name, try, t)
		if err == nil {
			return img, nil
		}
		class, _ := classify(err)
		refused := class == errdefs.ErrUnauthenticated || class == errdefs.ErrPermissionDenied ||
			class == errdefs.ErrNotFound
		if !refused || !try.next() {
			return runtime.Image{}, err
		}
	}
}

func (i *Images) fetch(ctx context.Context, name string, try *tries, t *transfer) (runtime.Image, error) {
	ctx, release, err := i.client.WithLease(ctx)
	if err != nil {
		return runtime.Image{}, err
	}
	defer release(context.WithoutCancel(ctx))
	crash.At("pull.leased")
	resolver := i.resolver(ctx, try, t)
	_, target, err := resolver.Resolve(ctx, name)
	if err != nil {
		return runtime.Image{}, err
	}
	if img, err := i.find(ctx, name); err == nil && img.Digest == target.Digest.String() {
		return img, i.grant(ctx, img, try.given())
	}
	crash.At("pull.resolved")
	t.restart()
	labels := map[string]string{labelPulled: "true"}
	if to := try.given(); to != nil {
		labels[labelAccess] = to.access()
	}
	pulled, err := i.client.Pull(ctx, name,
		client.WithResolver(resolved{resolver, name, target}),
		client.WithPullUnpack,
		client.WithPullLabels(labels),
		client.WithPullSnapshotter(i.options.Snapshotter),
		client.WithImageHandlerWrapper(t.count),
	)
	if err != nil {
		return runtime.Image{}, i.platformError(ctx, target, err)
	}
	crash.At("pull.stored")
	i.forget()
	generation := i.now()
	img, err := i.unpacked(ctx, pulled)
	if err == nil {
		i.remember(img, generation)
	}
	return img, err
}

// resolved is a resolver that has already resolved its name.
type resolved struct {
	remotes.Resolver
	name   string
	target imagespec.Descriptor
}

// Fetcher returns a fetcher for the registry alone.
func (r resolved) Fetcher(ctx context.Context, ref string) (remotes.Fetcher, error) {
	f, err := r.Resolver.Fetcher(ctx, ref)
	return registryFetcher{f}, err
}

// registryFetcher fetches everything from the registry, whatever else a manifest names (urls of foreign layers): that may be
// anywhere, and registries have had such layers themselves for long.
type registryFetcher struct{ remotes.Fetcher }

func (f registryFetcher) Fetch(ctx context.Context, d imagespec.Descriptor) (io.ReadCloser, error) {
	d.URLs = nil
	return f.Fetcher.Fetch(ctx, d)
}

func (r resolved) Resolve(context.Context, string) (string, imagespec.Descriptor, error) {
	return r.name, r.target, nil
}

// resolver makes the resolver for one pull, which speaks to the registries.
func (i *Images) resolver(ctx context.Context, try *tries, t *transfer) remotes.Resolver {
	to := newDestinations()
	options := config.HostOptions{
		Credentials: try.credentials,
		UpdateClient: func(c *http.Client) error {
			base, ok := c.Transport.(*http.Transport)
			if !ok {
				return errors.New("unexpected HTTP transport")
			}
			c.Transport = i.transport(base, t, to)
			return nil
		},
	}
	if i.options.HostsDir != "" {
		options.HostDir = config.HostDirFromRoot(i.options.HostsDir)
	}
	return docker.NewResolver(docker.ResolverOptions{Hosts: to.hosts(config.ConfigureHosts(ctx, options))})
}

// count adds up what a pull is going to fetch.
func (t *transfer) count(next images.Handler) images.Handler {
	return images.HandlerFunc(func(ctx context.Context, d imagespec.Descriptor) ([]imagespec.Descriptor, error) {
		if err := checkDescriptor(d); err != nil {
			return nil, err
		}
		t.mu.Lock()
		t.refs = append(t.refs, remotes.MakeRefKey(ctx, d))
		t.mu.Unlock()
		crash.At("pull.fetch.before")
		children, err := next.Handle(ctx, d)
		crash.At("pull.fetch.after")
		if images.IsManifestType(d.MediaType) {
			if len(children) > 0 { // the first one is the config, whatever its type
				if err := checkSize("config", children[0].Size); err != nil {
					return nil, err
				}
			}
			for _, c := range children {
				t.total.Add(c.Size)
				if images.IsLayerType(c.MediaType) {
					t.layers.Add(1)
				}
			}
		}
		if err == nil && images.IsLayerType(d.MediaType) {
			t.layersDone.Add(1)
		}
		return children, err
	})
}

// abandon drops blobs that were begun: the next pull would continue them.
func (i *Images) abandon(ctx context.Context, t *transfer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, ref := range t.refs {
		if err := i.client.ContentStore().Abort(ctx, ref); err != nil && !errdefs.IsNotFound(err) {
			i.options.Logger.Warn("cannot drop a broken download", "ref", ref, "error", err)
		}
	}
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
