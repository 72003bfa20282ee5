package image

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/distribution/reference"
	"github.com/docker/cli/cli/config/types"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/semaphore"

	"github.com/jobd/jobd/runtime"
)

// Push sends an image that is present to the registry of a name, with the credentials of whoever asks for it, or else those of
// this machine. The registry is not sent what it has, or can take from another of its repositories from which it came.
// Progress, if not nil, is called with lines. What is returned has the name and the digest by which the registry knows it. If
// only this machine's part of an image for several platforms is here, that part alone is sent.
func (i *Images) Push(
	ctx context.Context, ref, to string, with *runtime.Credentials, progress func(string),
) (runtime.Image, error) {
	ctx = i.inNamespace(ctx)
	stored, name, err := i.renamed(ctx, ref, to, "push", "give it a tag, from which its digest follows")
	if err != nil {
		return runtime.Image{}, err
	}
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return runtime.Image{}, err
	}
	if progress == nil {
		progress = func(string) {}
	}
	progress("Pushing " + name)
	target, size, err := i.pushed(ctx, stored.Target)
	if err != nil {
		return runtime.Image{}, fmt.Errorf("push %s: %w", stored.Name, err)
	}
	// What is told comes from as many goroutines as there are layers under way.
	var telling sync.Mutex
	t := &transfer{name: name, pushes: true, report: func(line string) {
		telling.Lock()
		defer telling.Unlock()
		progress(line)
	}}
	t.total.Store(size)
	var own keyring
	if with != nil {
		own = keyring{newKey(reference.Domain(named), types.AuthConfig{
			Username: with.Username, Password: with.Password, IdentityToken: with.IdentityToken,
		})}
	}
	try := &tries{found: map[string][]credential{}, find: func(host string) ([]credential, error) {
		return i.credentials(ctx, own, host, reference.Path(named))
	}}
	for {
		err := i.send(ctx, name, target, try, t)
		if err == nil {
			break
		}
		if errors.Is(err, context.Canceled) && ctx.Err() != nil {
			return runtime.Image{}, fmt.Errorf("push %s: %w", name, err)
		}
		class, message := classify(err)
		refused := class == errdefs.ErrUnauthenticated || class == errdefs.ErrPermissionDenied
		if !refused || !try.next() {
			return runtime.Image{}, &classed{"push " + name + ": " + message, class, err}
		}
	}
	return i.describe(ctx, client.NewImageWithPlatform(i.client, images.Image{Name: name, Target: target}, i.platform))
}

// send sends an image with the credentials of one round.
func (i *Images) send(ctx context.Context, name string, target imagespec.Descriptor, try *tries, t *transfer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	pusher, err := i.resolver(ctx, try, t).Pusher(ctx, name+"@"+target.Digest.String())
	if err != nil {
		return err
	}
	t.received.Store(0)
	from := sending{Store: i.content, transfer: t, stall: i.options.StallTimeout, cancel: cancel}
	err = remotes.PushContent(ctx, pusher, target, from, semaphore.NewWeighted(maxFetches), platforms.All, nil)
	if silent, ok := errors.AsType[*silence](context.Cause(ctx)); ok {
		return silent
	}
	return err
}

// pushed returns what is sent of an image, and how large that is: the whole, or the manifest for this machine if others are missing.
func (i *Images) pushed(ctx context.Context, target imagespec.Descriptor) (imagespec.Descriptor, int64, error) {
	size, err := i.complete(ctx, target)
	if err == nil || !errdefs.IsNotFound(err) || !images.IsIndexType(target.MediaType) {
		return target, size, err
	}
	var own *imagespec.Descriptor
	children := images.LimitManifests(images.FilterPlatforms(images.ChildrenHandler(i.client.ContentStore()), i.platform), i.platform, 1)
	if err := images.Walk(ctx, images.HandlerFunc(func(ctx context.Context, d imagespec.Descriptor) ([]imagespec.Descriptor, error) {
		if images.IsManifestType(d.MediaType) {
			own = &d
			return nil, nil
		}
		return children(ctx, d)
	}), target); err != nil {
		return target, 0, err
	}
	if own == nil {
		return target, 0, fmt.Errorf("it has nothing for %s: %w", platforms.Format(platforms.DefaultSpec()), errdefs.ErrNotFound)
	}
	own.Platform, own.Annotations = nil, nil
	size, err = i.complete(ctx, *own)
	return *own, size, err
}

// complete returns the size of all that an image consists of, or NotFound if something of it is not here.
func (i *Images) complete(ctx context.Context, target imagespec.Descriptor) (size int64, err error) {
	err = images.Walk(ctx, images.HandlerFunc(func(ctx context.Context, d imagespec.Descriptor) ([]imagespec.Descriptor, error) {
		info, err := i.content.Info(ctx, d.Digest)
		if err != nil {
			return nil, err
		}
		size += info.Size
		return images.Children(ctx, i.client.ContentStore(), d)
	}), target)
	return size, err
}

// sending is what a push reads. It counts that, and bounds how long a registry may take nothing.
type sending struct {
	content.Store
	transfer *transfer
	stall    time.Duration
	cancel   context.CancelCauseFunc
}

func (s sending) ReaderAt(ctx context.Context, d imagespec.Descriptor) (content.ReaderAt, error) {
	if images.IsIndexType(d.MediaType) || images.IsManifestType(d.MediaType) || images.IsConfigType(d.MediaType) {
		return documents{s.Store}.ReaderAt(ctx, d)
	}
	r, err := s.Store.ReaderAt(ctx, d)
	if err != nil {
		return nil, err
	}
	timer := time.AfterFunc(s.stall, func() { s.cancel(&silence{fmt.Errorf("the registry took nothing for %s", s.stall)}) })
	timer.Stop()
	return &sent{r, s, timer}, nil
}

type sent struct {
	content.ReaderAt
	to    sending
	timer *time.Timer
}

// ReadAt runs the timer from its end to its next call, while the registry is to take what was read. For its answer to the whole there is
// another one.
func (s *sent) ReadAt(p []byte, at int64) (int, error) {
	s.timer.Stop()
	n, err := s.ReaderAt.ReadAt(p, at)
	s.to.transfer.sent(n)
	if err == nil && at+int64(n) < s.Size() {
		s.timer.Reset(s.to.stall)
	}
	return n, err
}

func (s *sent) Close() error {
	s.timer.Stop()
	return s.ReaderAt.Close()
}
