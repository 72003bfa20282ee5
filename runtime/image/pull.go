package image

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/semaphore"

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
	key := "pull " + name + own.id()
	return i.once(ctx, key, "the pull", progress, func(ctx context.Context, report func(string)) (runtime.Image, error) {
		report("Pulling " + name)
		ctx, removed := i.claims.begin(ctx) // until what was begun has been abandoned
		defer removed()
		t := newPull(name, report)
		defer i.transfers.begin(t)()
		img, err := i.fetchWithAny(ctx, name, own, t)
		if err == nil {
			return img, nil
		}
		if late, ok := errors.AsType[*silence](context.Cause(ctx)); ok {
			err = late
		}
		err = i.pullError(name, err, t)
		if errdefs.IsDataLoss(err) && t.resumed.Swap(false) {
			i.abandon(ctx, t) // what was there was wrong, and perhaps not what has come now
			if img, err = i.fetchWithAny(ctx, name, own, t); err == nil {
				return img, nil
			}
			err = i.pullError(name, err, t)
		}
		switch {
		case errdefs.IsDataLoss(err):
			i.abandon(ctx, t)
		case diskFull(err), errors.Is(err, errNoRoom):
			i.abandon(ctx, t) // frees space, which the rest of the machine lacks too
			i.options.DiskFull()
		}
		return runtime.Image{}, err
	})
}

// once gets an image for all who want it at the same time, which the key tells, when it is the turn of their namespace. If that takes
// too long it is cut off, and the cause is a silence that says what has taken it.
func (i *Images) once(
	ctx context.Context, key, what string, progress func(string),
	get func(ctx context.Context, report func(string)) (runtime.Image, error),
) (runtime.Image, error) {
	end, err := i.shares.take(ctx, runtime.Tenant(ctx), key, func() {
		if progress != nil {
			progress("Waiting for other pulls of this namespace")
		}
	})
	if err != nil {
		return runtime.Image{}, err
	}
	defer end()
	return i.flights.do(ctx, key, progress, func(ctx context.Context, report func(string)) (runtime.Image, error) {
		ctx, cancel := context.WithTimeoutCause(i.inNamespace(ctx), i.options.PullTimeout,
			&silence{fmt.Errorf("%s has taken %s, and has not ended", what, i.options.PullTimeout)})
		defer cancel()
		return get(ctx, report)
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

func (i *Images) fetch(ctx context.Context, name string, try *tries, t *transfer) (_ runtime.Image, err error) {
	ctx, release, err := i.leased(ctx)
	if err != nil {
		return runtime.Image{}, err
	}
	// What has arrived is of use to the next try, unless the disk is too full for it.
	defer func() { release(diskFull(err) || errors.Is(err, errNoRoom)) }()
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
	from := resolved{resolver, name, target, i.options.StallTimeout}
	fetcher, err := from.Fetcher(ctx, name)
	if err != nil {
		return runtime.Image{}, err
	}
	possession := possession{i.content, fetcher, possessed(t.origin)}
	var pulled client.Image
	err = i.inRoom(ctx, func(ctx context.Context) (err error) {
		ctx, end := context.WithCancel(ctx)
		defer t.settle()
		defer end()
		pulled, err = i.client.Pull(ctx, name,
			client.WithResolver(from),
			client.WithPullUnpack,
			client.WithPullLabels(labels),
			client.WithPullSnapshotter(i.options.Snapshotter),
			client.WithChildLabelMap(partsOfManifests),
			client.WithImageHandlerWrapper(func(next images.Handler) images.Handler { return i.fetching(t, possession, next) }),
		)
		return err
	})
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
	stall  time.Duration
}

// Fetcher returns a fetcher for the registry alone.
func (r resolved) Fetcher(ctx context.Context, ref string) (remotes.Fetcher, error) {
	f, err := r.Resolver.Fetcher(ctx, ref)
	return registryFetcher{f, r.stall}, err
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
		options.HostDir = to.hostDir(config.HostDirFromRoot(i.options.HostsDir))
	}
	return docker.NewResolver(docker.ResolverOptions{Hosts: to.hosts(config.ConfigureHosts(ctx, options))})
}

// maxFetches is how many parts of one image are fetched at a time. Each takes a megabyte or more.
const maxFetches = 4

// maxIndexes is how many indexes there may be on the way to an image. One is usual.
const maxIndexes = 8

// partsOfManifests returns the labels by which containerd keeps what a manifest names. What an index names, which may be ten thousands of
// images, must not be written down before it is known which one is fetched: the database that has it is copied as a whole at each
// change of any image.
func partsOfManifests(d imagespec.Descriptor) []string {
	if images.IsIndexType(d.MediaType) || images.IsManifestType(d.MediaType) {
		return nil
	}
	return images.ChildGCLabels(d)
}

// keepChosen keeps those of what an index names that are fetched.
func (i *Images) keepChosen(ctx context.Context, index imagespec.Descriptor, chosen []imagespec.Descriptor) error {
	_, err := images.SetChildrenLabels(i.client.ContentStore(), func(context.Context, imagespec.Descriptor) ([]imagespec.Descriptor, error) {
		return chosen, nil
	})(ctx, index)
	return err
}

// newPull returns the transfer of a pull. What it has begun to fetch is continued by the next one of the same repository only. Others
// may have parts of the same digest, but must neither wait for what another registry sends nor go on with it.
func newPull(name string, report func(string)) *transfer {
	t := &transfer{name: name, report: report, parts: semaphore.NewWeighted(maxFetches), origin: name}
	if named, err := reference.ParseNormalizedNamed(name); err == nil {
		t.origin = named.Name()
	}
	return t
}

// settleTime is how long the end of a pull may take that has been given up.
const settleTime = 10 * time.Second

// settle waits for the fetches of a pull that has ended: when one part has failed, or does not unpack, containerd's client waits for no other.
// What they write later would be kept by nothing, and take the disk for which the pull was given up.
func (t *transfer) settle() {
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	if t.parts.Acquire(ctx, maxFetches) == nil {
		t.parts.Release(maxFetches)
	}
}

// fetching handles the parts of an image that is pulled: it checks what they are said to be, and adds them up.
func (i *Images) fetching(t *transfer, possession possession, next images.Handler) images.Handler {
	return images.HandlerFunc(func(ctx context.Context, d imagespec.Descriptor) ([]imagespec.Descriptor, error) {
		if err := checkDescriptor(d); err != nil {
			return nil, err
		}
		if images.IsIndexType(d.MediaType) && t.indexes.Add(1) > maxIndexes {
			return nil, fmt.Errorf("the image is in an index, which is in another one, and so on, more than %d times: %w",
				maxIndexes, errdefs.ErrInvalidArgument)
		}
		if err := t.parts.Acquire(ctx, 1); err != nil {
			return nil, err
		}
		defer t.parts.Release(1)
		ref := t.ref(ctx, d)
		t.mu.Lock()
		t.refs = append(t.refs, ref)
		t.mu.Unlock()
		if s, err := i.client.ContentStore().Status(ctx, ref); err == nil && s.Offset > 0 {
			t.resumed.Store(true)
		}
		if err := possession.prove(ctx, d); err != nil {
			return nil, err
		}
		crash.At("pull.fetch.before")
		children, err := next.Handle(t.named(ctx, d), d)
		crash.At("pull.fetch.after")
		if err == nil {
			err = possession.shown(ctx, d)
		}
		if err == nil && images.IsIndexType(d.MediaType) {
			err = i.keepChosen(ctx, d, children)
		}
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
			if err := i.checkParts(ctx, t, children); err != nil {
				return nil, err
			}
		}
		if err == nil && images.IsLayerType(d.MediaType) {
			t.layersDone.Add(1)
		}
		return children, err
	})
}

// checkParts refuses what is larger than the disk has room for before it is fetched, and what is here already but is not as large
// as is said.
func (i *Images) checkParts(ctx context.Context, t *transfer, parts []imagespec.Descriptor) error {
	room := roomOf(ctx)
	left := int64(math.MaxInt64)
	if room != nil {
		left = room.bytes
	}
	for _, p := range parts {
		if info, err := i.content.Info(ctx, p.Digest); err == nil {
			if info.Size != p.Size {
				return fmt.Errorf("%s has %d bytes, not %d as the image says: %w", p.Digest, info.Size, p.Size, errdefs.ErrInvalidArgument)
			}
			continue
		}
		size := p.Size
		if s, err := i.content.Status(ctx, t.ref(ctx, p)); err == nil {
			size -= min(s.Offset, size)
		}
		if size > left {
			if room != nil {
				return room.exceed()
			}
			return fmt.Errorf("the image says that it has more bytes than can be counted: %w", errdefs.ErrInvalidArgument)
		}
		left -= size
		room.takes(size, 1)
	}
	return nil
}

// ref returns what a part is called in the content store while it is fetched.
func (t *transfer) ref(ctx context.Context, d imagespec.Descriptor) string {
	return remotes.MakeRefKey(t.named(ctx, d), d)
}

// named returns a context in which a part is called so.
func (t *transfer) named(ctx context.Context, d imagespec.Descriptor) context.Context {
	return remotes.WithMediaTypeKeyPrefix(ctx, d.MediaType, t.origin)
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
