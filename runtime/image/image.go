// Package image provides the images of pods: it pulls, imports, unpacks, lists and removes them, in a containerd.
//
// References, credentials and archives come in, images that are unpacked and ready go out. It touches only the images,
// content and snapshots of that containerd.
//
// Errors carry a class of containerd's errdefs: InvalidArgument for a malformed name or archive, NotFound,
// Unauthenticated, PermissionDenied, Unavailable (the registry cannot be reached, or went silent), DataLoss (what it
// sent does not have the announced digest), FailedPrecondition (the image is in use).
package image

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/image-spec/identity"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/internal/engine"
	"github.com/jobd/jobd/runtime"
)

// Options are the options of New. The zero value works.
type Options struct {
	// Snapshotter unpacks the images. Default overlayfs.
	Snapshotter string
	// DockerConfigPath is a config.json with credentials that are tried before those of the user ($DOCKER_CONFIG and
	// ~/.docker). It need not exist, and is read for every pull.
	DockerConfigPath string
	// HostsDir has a directory for each registry, with a hosts.toml or certificates as for containerd, to configure
	// mirrors and private certificate authorities. It need not exist.
	HostsDir string
	// Space returns how much of the disk is free, and how much of it images must leave. May be nil: then they may fill it.
	Space func() (free, reserve Size, err error)
	// Engines are asked before a registry for an image that is not present (IfNotPresent), in this order.
	Engines []engine.Engine
	// DiskFull is called when the disk is too full for an image. May be nil.
	DiskFull func()
	Logger   *slog.Logger

	// ConnectTimeout bounds connecting to a registry (default 10 s), AnswerTimeout its answer to each request (30 s),
	// and StallTimeout how long it may send nothing of what it has announced (60 s). In five times that it must send
	// leastRate. PullTimeout bounds a pull as a whole (a week).
	ConnectTimeout, AnswerTimeout, StallTimeout, PullTimeout time.Duration
}

// Images are the images of one containerd namespace. All methods may be called at the same time.
type Images struct {
	client   *client.Client // its content store has only documents
	content  content.Store  // that has all
	options  Options
	platform platforms.MatchComparer
	flights  flights
	shares   shares
	claims   claims

	transfers transfers

	mu sync.Mutex
	// known has images that are present and unpacked, by every spelling of their names that was requested.
	known map[string]runtime.Image
	// generation counts changes: what was looked up before a change must not be remembered after it.
	generation uint64
	// used has when images were last requested, by their full names. going has the images that are being removed
	// because they are unused, each with a channel that is closed at the end of the removal.
	used  map[string]time.Time
	going map[string]chan struct{}
	// access has who may use which image, as far as that was looked up, by their full names.
	access map[string]access

	granting sync.Mutex
}

// New returns the images in the default namespace of a client of containerd.
func New(c *client.Client, o Options) *Images {
	if o.Snapshotter == "" {
		o.Snapshotter = "overlayfs"
	}
	if o.DiskFull == nil {
		o.DiskFull = func() {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	for timeout, standard := range map[*time.Duration]time.Duration{
		&o.ConnectTimeout: 10 * time.Second, &o.AnswerTimeout: 30 * time.Second, &o.StallTimeout: time.Minute,
		&o.PullTimeout: 7 * 24 * time.Hour,
	} {
		if *timeout == 0 {
			*timeout = standard
		}
	}
	return &Images{
		client: withDocuments(c, o.Snapshotter), content: c.ContentStore(), options: o, platform: platforms.Default(),
		known: map[string]runtime.Image{}, used: map[string]time.Time{}, going: map[string]chan struct{}{}, access: map[string]access{},
	}
}

// inNamespace returns a context for calls of containerd's stores, which do not know the client's namespace.
func (i *Images) inNamespace(ctx context.Context) context.Context {
	return namespaces.WithNamespace(ctx, i.client.DefaultNamespace())
}

// Ensure returns the image of a container, according to imagePullPolicy. Always asks the registry what the name stands
// for now, and pulls what is missing. IfNotPresent, which an empty policy also means, pulls only if the image is not
// present. Never does not pull, and returns NotFound. The registry is shown the credentials in secrets, and after them
// those of this machine. An image that it has given only for credentials of other pods counts as not present, until the
// registry says that this pod may have it too.
//
// With IfNotPresent the engines of the options are asked before the registry; and again for an image that came from one,
// which is taken anew if its name means another one there.
//
// Progress may be nil. It is called with lines about the progress, at least once if the registry is asked and never if
// it is not, and only before Ensure returns. An image is pulled once for all who wait for it; each of them may give up
// alone.
func (i *Images) Ensure(
	ctx context.Context, ref string, policy corev1.PullPolicy, secrets *runtime.PullSecrets, progress func(string),
) (runtime.Image, error) {
	if policy != corev1.PullAlways {
		if img, ok := i.lookUp(ref); ok && (img.Engine == "" || !i.asksEngines(policy)) && i.mayUse(ctx, img.Name, secrets) {
			return img, nil
		}
	}
	name, err := Normalize(ref)
	if err != nil {
		return runtime.Image{}, err
	}
	if err := i.await(ctx, name); err != nil {
		return runtime.Image{}, err
	}
	// An image that took its time to come was not in use before.
	defer i.use(name)
	pull := func() (runtime.Image, error) {
		own, err := keyringOf(secrets)
		if err != nil {
			return runtime.Image{}, fmt.Errorf("pull %s: %w", name, err)
		}
		return i.pull(ctx, name, own, progress)
	}
	if policy == corev1.PullAlways {
		img, err := pull()
		if err != nil && ctx.Err() == nil && i.mayUse(ctx, name, secrets) {
			err = &present{err}
		}
		return img, err
	}
	img, err := i.find(ctx, name)
	if err != nil && !errdefs.IsNotFound(err) {
		return runtime.Image{}, err
	}
	here := err == nil && i.mayUse(ctx, name, secrets)
	var silent error
	if i.asksEngines(policy) && (!here || img.Engine != "") {
		var taken bool
		if img, taken, err = i.fromEngines(ctx, name, img, here, progress); taken && err != nil {
			return runtime.Image{}, err
		}
		here, silent = here || taken, err
	}
	switch {
	case here:
		i.alias(ref, img)
		return img, nil
	case policy == corev1.PullNever:
		return runtime.Image{}, &neverPull{ref}
	}
	if img, err = pull(); err != nil && silent != nil {
		err = fmt.Errorf("%w (%w)", err, silent)
	}
	return img, err
}

// List returns every image, by name.
func (i *Images) List(ctx context.Context) ([]runtime.Image, error) {
	ctx = i.inNamespace(ctx)
	stored, err := i.client.ImageService().List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	list := make([]runtime.Image, 0, len(stored))
	for _, s := range stored {
		img, err := i.describe(ctx, client.NewImageWithPlatform(i.client, s, i.platform))
		if err != nil {
			// Its content is missing or for another platform. The image can still be removed.
			i.options.Logger.Warn("image is not complete", "image", s.Name, "error", err)
			img = runtime.Image{Name: s.Name, Digest: s.Target.Digest.String(), Created: s.CreatedAt}
		}
		list = append(list, img)
	}
	return list, nil
}

// Remove removes the name of an image, and what no other image or container needs of its content. It fails with
// FailedPrecondition while a container exists that was made from that name, or a volume shows it.
func (i *Images) Remove(ctx context.Context, ref string) error {
	ctx = i.inNamespace(ctx)
	name, err := Normalize(ref)
	if err != nil {
		return err
	}
	users, err := i.client.ContainerService().List(ctx, fmt.Sprintf("image==%q", name))
	if err != nil {
		return fmt.Errorf("remove image %s: look for its containers: %w", name, err)
	}
	if len(users) > 0 {
		return fmt.Errorf("remove image %s: container %s uses it (of %d): %w", name, users[0].ID, len(users),
			errdefs.ErrFailedPrecondition)
	}
	if volumes, err := i.inVolumes(ctx, name); err != nil {
		return fmt.Errorf("remove image %s: look for its volumes: %w", name, err)
	} else if volumes > 0 {
		return fmt.Errorf("remove image %s: volumes of pods show it (%d): %w", name, volumes, errdefs.ErrFailedPrecondition)
	}
	defer i.forget()
	err = i.client.ImageService().Delete(ctx, name, images.SynchronousDelete())
	if errdefs.IsNotFound(err) {
		return fmt.Errorf("image %s: %w", name, errdefs.ErrNotFound)
	}
	if err != nil {
		return fmt.Errorf("remove image %s: %w", name, err)
	}
	return nil
}

// Watch forgets what is remembered of the images whenever others change them, for example ctr. It returns when ctx
// ends, or when containerd sends no more events.
func (i *Images) Watch(ctx context.Context) error {
	ctx = i.inNamespace(ctx)
	events, errs := i.client.Subscribe(ctx, `topic~="^/images/"`)
	for {
		select {
		case <-events:
			i.forget()
		case err := <-errs:
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("watch images: %w", err)
		}
	}
}

// find returns an image that is present, and unpacks it if necessary.
func (i *Images) find(ctx context.Context, name string) (runtime.Image, error) {
	if img, ok := i.lookUp(name); ok {
		return img, nil
	}
	return i.flights.do(ctx, "find "+name, nil, func(ctx context.Context, _ func(string)) (runtime.Image, error) {
		ctx = i.inNamespace(ctx)
		generation := i.now()
		stored, err := i.client.ImageService().Get(ctx, name)
		if err != nil {
			return runtime.Image{}, err
		}
		img, err := i.unpacked(ctx, client.NewImageWithPlatform(i.client, stored, i.platform))
		if err == nil {
			i.remember(img, generation)
		}
		return img, err
	})
}

// unpacked describes an image and makes sure that its snapshots exist and stay as long as it does.
func (i *Images) unpacked(ctx context.Context, c client.Image) (runtime.Image, error) {
	img, err := i.describe(ctx, c)
	if err != nil {
		return runtime.Image{}, err
	}
	if img.ChainID == "" {
		return runtime.Image{}, fmt.Errorf("image %s has no layers", img.Name)
	}
	config, err := c.Config(ctx)
	if err != nil {
		return runtime.Image{}, err
	}
	info, err := i.client.ContentStore().Info(ctx, config.Digest)
	if err != nil {
		return runtime.Image{}, err
	}
	// The label on the config protects the snapshot from garbage collection; it is set when unpacking is complete.
	if info.Labels["containerd.io/gc.ref.snapshot."+i.options.Snapshotter] == img.ChainID {
		switch _, err := i.client.SnapshotService(i.options.Snapshotter).Stat(ctx, img.ChainID); {
		case err == nil:
			return img, nil
		case !errdefs.IsNotFound(err):
			return runtime.Image{}, err
		}
	}
	ctx, release, err := i.leased(ctx)
	if err != nil {
		return runtime.Image{}, err
	}
	err = i.inRoom(ctx, func(ctx context.Context) error { return c.Unpack(ctx, i.options.Snapshotter) })
	if release(err != nil); err != nil {
		return runtime.Image{}, fmt.Errorf("unpack image %s: %w", img.Name, err)
	}
	return img, nil
}

// describe reads the config of an image.
func (i *Images) describe(ctx context.Context, c client.Image) (runtime.Image, error) {
	manifest, err := i.manifest(ctx, c.Target())
	if err != nil {
		return runtime.Image{}, fmt.Errorf("image %s: %w", c.Name(), err)
	}
	descriptor := manifest.Config
	raw, err := content.ReadBlob(ctx, i.client.ContentStore(), descriptor)
	if err != nil {
		return runtime.Image{}, fmt.Errorf("image %s: read its config: %w", c.Name(), err)
	}
	var config imagespec.Image
	if err := json.Unmarshal(raw, &config); err != nil {
		return runtime.Image{}, fmt.Errorf("image %s: its config: %w", c.Name(), err)
	}
	size, err := c.Size(ctx)
	if err != nil {
		return runtime.Image{}, fmt.Errorf("image %s: %w", c.Name(), err)
	}
	img := runtime.Image{
		Name:    c.Name(),
		ID:      descriptor.Digest.String(),
		Digest:  c.Target().Digest.String(),
		ChainID: identity.ChainID(config.RootFS.DiffIDs).String(),
		Size:    size,
		Config:  config.Config,
	}
	if config.Created != nil {
		img.Created = *config.Created
	}
	labels := c.Labels()
	img.Engine, _, _ = strings.Cut(labels[labelEngine], "/")
	img.Local = img.Engine != "" || labels[labelPulled] == ""
	return img, nil
}

func (i *Images) lookUp(ref string) (runtime.Image, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	img, ok := i.known[ref]
	if ok {
		i.used[img.Name] = time.Now()
	}
	return img, ok
}

func (i *Images) now() uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.generation
}

// remember remembers an image that was looked up in the given generation, if nothing has changed since.
func (i *Images) remember(img runtime.Image, generation uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.generation == generation {
		i.known[img.Name] = img
	}
}

// alias remembers another spelling of a known image's name.
func (i *Images) alias(ref string, img runtime.Image) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if known, ok := i.known[img.Name]; ok && known.Digest == img.Digest {
		i.known[ref] = known
	}
}

// forget drops everything that is remembered; it is looked up again when it is needed.
func (i *Images) forget() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.drop()
}

// drop does what forget does, with Images.mu held.
func (i *Images) drop() {
	clear(i.known)
	clear(i.access)
	i.generation++
}

// neverPull is the error, in a kubelet's words, for an image that is not present and must not be pulled.
type neverPull struct{ ref string }

func (e *neverPull) Error() string {
	return fmt.Sprintf("Container image %q is not present with pull policy of Never", e.ref)
}

func (e *neverPull) Unwrap() error { return errdefs.ErrNotFound }

// present is the error for an image that cannot be pulled, but is on this machine for the pod to use.
type present struct{ error }

func (e *present) Error() string {
	return fmt.Sprintf("%v (%s, but imagePullPolicy Always, the default for :latest, asks the registry: "+
		"set IfNotPresent, jobctl's --pull missing, or use another tag)", e.error, runtime.ImagePresent)
}

func (e *present) Unwrap() error { return e.error }
