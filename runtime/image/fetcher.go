package image

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/errdefs"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"
)

// registryFetcher fetches everything from the registry, whatever else a manifest names (urls of foreign layers): that may be
// anywhere, and registries have had such layers themselves for long.
type registryFetcher struct {
	remotes.Fetcher
	stall time.Duration
}

func (f registryFetcher) Fetch(ctx context.Context, d imagespec.Descriptor) (io.ReadCloser, error) {
	d.URLs = nil
	r, err := f.Fetcher.Fetch(forBlob(ctx, d.Size), d)
	if err != nil {
		return nil, err
	}
	return &fetched{ReadCloser: r, pace: newPace(f.stall)}, nil
}

// fetched is what is fetched for one descriptor, by as many requests as a registry that breaks off makes necessary.
type fetched struct {
	io.ReadCloser
	pace pace
}

func (f *fetched) Read(p []byte) (int, error) {
	began := time.Now()
	n, err := f.ReadCloser.Read(p)
	if slow := f.pace.add(n, time.Since(began)); slow != nil && err == nil {
		err = slow
	}
	return n, err
}

// Seek lets a download go on where an earlier one has ended.
func (f *fetched) Seek(offset int64, whence int) (int64, error) {
	if s, ok := f.ReadCloser.(io.Seeker); ok {
		return s.Seek(offset, whence)
	}
	return 0, fmt.Errorf("what is fetched cannot be sought in: %w", errdefs.ErrNotImplemented)
}

type blobKey struct{}

// forBlob returns a context for the requests of a blob, whose answers may be as large as it.
func forBlob(ctx context.Context, size int64) context.Context {
	return context.WithValue(ctx, blobKey{}, size)
}

// forAnswers returns a context for requests of anything else, for example of tokens for a blob.
func forAnswers(ctx context.Context) context.Context { return context.WithValue(ctx, blobKey{}, nil) }

// bound returns how many bytes the answer to a request may have. It is the caller who says what it is for: where it leads is up to
// the registry.
func bound(ctx context.Context) int64 {
	size, isBlob := ctx.Value(blobKey{}).(int64)
	if !isBlob {
		return maxMetadata
	}
	coded := size/1000 + 64<<10 // by which gzip may make it longer
	return min(size, math.MaxInt64-coded) + coded
}
