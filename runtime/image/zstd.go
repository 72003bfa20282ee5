package image

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/containerd/containerd/v2/pkg/archive/compression"
	"github.com/containerd/errdefs"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/semaphore"
)

const (
	// usualWindow is what RFC 8878 recommends that everybody decompresses. Builders of images use no larger one.
	usualWindow = 8 << 20
	// maxWindow is what zstd(1) decompresses unless it is told otherwise, and with --long compresses so that this takes it.
	maxWindow = 128 << 20
)

// largeWindow is held by who decompresses with more than usualWindow: all of it is memory, and as much again, without which all of
// it would be moved for each block.
var largeWindow = semaphore.NewWeighted(1)

// decompressed returns what is in a stream that may be compressed in one of the ways of layers.
func decompressed(ctx context.Context, r *bufio.Reader) (io.ReadCloser, error) {
	begin, err := r.Peek(zstd.HeaderMaxSize)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if compression.DetectCompression(begin) != compression.Zstd {
		return compression.DecompressStream(r)
	}
	most, release := uint64(usualWindow), func() {}
	if err := checkWindow(begin); err != nil {
		return nil, err
	}
	if window(begin) > usualWindow {
		if err := largeWindow.Acquire(ctx, 1); err != nil {
			return nil, err
		}
		most, release = maxWindow, func() { largeWindow.Release(1) }
	}
	d, err := zstd.NewReader(r, zstd.WithDecoderLowmem(false), zstd.WithDecoderMaxWindow(most))
	if err != nil {
		release()
		return nil, err
	}
	return &zstdReader{d, release}, nil
}

// window returns how much memory the first frame of a stream wants, 0 if it does not begin with one. It is the first one that
// decides: no later one may want more than those that begin as it does.
func window(begin []byte) uint64 {
	var h zstd.Header
	if h.Decode(begin) != nil || h.Skippable {
		return 0
	}
	if h.SingleSegment {
		return h.FrameContentSize
	}
	return h.WindowSize
}

// checkWindow refuses a stream whose first frame wants more memory than maxWindow.
func checkWindow(begin []byte) error {
	if window(begin) > maxWindow {
		return tooLargeWindow(zstd.ErrWindowSizeExceeded)
	}
	return nil
}

type zstdReader struct {
	decoder *zstd.Decoder
	release func()
}

func (r *zstdReader) Read(p []byte) (int, error) {
	n, err := r.decoder.Read(p)
	return n, tooLargeWindow(err)
}

// tooLargeWindow says what a stream of zstd would take too much of.
func tooLargeWindow(err error) error {
	if !errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return err
	}
	return fmt.Errorf("decompressing it takes more memory than %d MiB, or than its beginning says (%w): %w",
		maxWindow>>20, err, errdefs.ErrInvalidArgument)
}

func (r *zstdReader) Close() error {
	r.decoder.Close()
	r.release()
	r.release = func() {}
	return nil
}
