package image

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path"

	"github.com/containerd/containerd/v2/core/diff"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/containerd/typeurl/v2"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/semaphore"
)

const (
	// usualHeld is how much memory containerd may take for the paths and directories of a layer, which it keeps until all of
	// them are there: a third of a million files. maxHeld is that of one layer at a time: a million and a half.
	usualHeld = 64 << 20
	maxHeld   = 256 << 20
	// maxPadding is what may come after the end of an archive. tar(1) fills up its last record, which others ignore.
	maxPadding = 16 << 20
	// maxArchive is how much memory may be taken for the names in an archive of images, and for what they are links to, which are kept until
	// its end: some ten thousand. Images of an archive have a file for each layer.
	maxArchive = 16 << 20
)

// largeHeld is held by the layer that takes more memory than usualHeld.
var largeHeld = semaphore.NewWeighted(1)

func init() { diff.RegisterProcessor(layerProcessor) }

// layerProcessor decompresses layers in containerd's place.
func layerProcessor(ctx context.Context, mediaType string) (diff.StreamProcessorInit, bool) {
	algorithm, err := images.DiffCompression(ctx, mediaType)
	if err != nil {
		return nil, false // it is no layer, or an encrypted one
	}
	return func(ctx context.Context, compressed diff.StreamProcessor, _ map[string]typeurl.Any) (diff.StreamProcessor, error) {
		r := io.ReadCloser(compressed)
		if algorithm != "" {
			if r, err = decompressed(ctx, bufio.NewReader(compressed)); err != nil {
				return nil, err
			}
		}
		return newLayer(ctx, r), nil
	}, true
}

// layer is the archive of a layer, as far as it may be unpacked: until the pull ends, until there is no more room for it, and with
// as many entries as can be kept in mind.
type layer struct {
	*bufio.Reader
	bounded *boundedLayer
}

func newLayer(ctx context.Context, r io.ReadCloser) *layer {
	return newLayerOf(ctx, r, usualHeld, maxHeld)
}

func newLayerOf(ctx context.Context, r io.ReadCloser, usual, most int64) *layer {
	b := &boundedLayer{what: "a layer of the image", from: r, left: math.MaxInt64, padding: maxPadding, usual: usual, most: most}
	if room := roomOf(ctx); room != nil {
		b.left = room.unpacked
	}
	return b.begin(ctx)
}

// newArchive returns an archive of images, as far as it may be read: with as many entries as can be kept in mind.
func newArchive(ctx context.Context, r io.ReadCloser) *layer {
	b := &boundedLayer{
		what: "the archive", from: r, left: math.MaxInt64, padding: math.MaxInt64, usual: maxArchive, most: maxArchive, keepsLinks: true,
	}
	return b.begin(ctx)
}

func (b *boundedLayer) begin(ctx context.Context) *layer {
	b.ended = make(chan struct{})
	b.ctx, b.cancel = context.WithCancel(ctx)
	scanned, w := io.Pipe()
	b.scanned = w
	go b.scan(scanned)
	return &layer{bufio.NewReaderSize(b, 64<<10), b}
}

func (l *layer) MediaType() string { return imagespec.MediaTypeImageLayer }

func (l *layer) Close() error { return l.bounded.Close() }

// boundedLayer passes what it reads to a reader of archives, which looks at each entry before others see it.
type boundedLayer struct {
	what    string // it is, at the beginning of a sentence
	ctx     context.Context
	cancel  context.CancelFunc
	from    io.ReadCloser
	left    int64 // bytes
	padding int64 // bytes after the end of the archive that are left
	usual   int64 // memory that may be taken for its entries at any time
	most    int64 // of a layer that is the only one to take more
	// keepsLinks: what links lead to is kept too.
	keepsLinks bool
	scanned    *io.PipeWriter
	over       bool          // the archive has ended
	ended      chan struct{} // closed when nobody scans any more
	large      bool          // largeHeld is held; set before ended is closed
}

// errArchiveEnd is the error of writing to who has found the end of the archive.
var errArchiveEnd = errors.New("the archive has ended")

func (b *boundedLayer) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, context.Cause(b.ctx)
	}
	n, err := b.from.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, roomOf(b.ctx).exceed()
	}
	if n > 0 { // whoever asks again after an error gets it again
		if scanErr := b.scanNext(p[:n]); scanErr != nil {
			return 0, scanErr
		}
	}
	if err != nil {
		b.scanned.Close()
	}
	return n, err
}

// scanNext has the next bytes looked at.
func (b *boundedLayer) scanNext(p []byte) error {
	if !b.over {
		n, err := b.scanned.Write(p)
		if !errors.Is(err, errArchiveEnd) {
			return err
		}
		b.over = true
		p = p[n:]
	}
	if b.padding -= int64(len(p)); b.padding < 0 {
		return fmt.Errorf("more than %d bytes come after the end of the archive of a layer: %w", maxPadding, errdefs.ErrInvalidArgument)
	}
	return nil
}

// scan reads an archive as those who unpack it do, and closes the pipe at its end or when it has too many entries.
func (b *boundedLayer) scan(r *io.PipeReader) {
	defer close(b.ended)
	archive, held := tar.NewReader(r), held{links: map[string]struct{}{}}
	for {
		h, err := archive.Next()
		if err == io.EOF {
			r.CloseWithError(errArchiveEnd)
			return
		}
		if err == nil {
			held.add(h)
			roomOf(b.ctx).takes(h.Size, 1)
			if b.keepsLinks {
				held.bytes += int64(len(h.Linkname))
			}
			err = b.mayHold(held.bytes)
		}
		if err != nil {
			r.CloseWithError(err)
			return
		}
	}
}

// mayHold returns an error if a layer takes too much memory, after it has waited for others that take much.
func (b *boundedLayer) mayHold(held int64) error {
	switch {
	case held > b.most:
		return fmt.Errorf("%s has too many or too large entries: its paths and directories take more than %d MiB: %w",
			b.what, b.most>>20, errdefs.ErrInvalidArgument)
	case held > b.usual && !b.large:
		if err := largeHeld.Acquire(b.ctx, 1); err != nil {
			return context.Cause(b.ctx)
		}
		b.large = true
	}
	return nil
}

// held is how much memory is taken for the entries of a layer until all of them are there, roughly: each path below the root of the
// snapshot, and of a directory the whole header, since its mtime is set at the end.
type held struct {
	bytes int64
	links map[string]struct{} // paths that are no directories, but may lead to some
}

const (
	heldPath   = 128 // beside its text
	heldHeader = 512
	heldRecord = 128
	longest    = 4096 // PATH_MAX
)

func (l *held) add(h *tar.Header) {
	name := path.Clean("/" + h.Name)
	n := heldPath + len(name)
	if l.behindLink(name) { // its own path is another one
		n += longest
	}
	switch h.Typeflag {
	case tar.TypeDir:
		n += heldHeader + len(h.Name) + len(h.Linkname) + len(h.Uname) + len(h.Gname)
		if len(h.PAXRecords) > 0 {
			n += heldHeader
		}
		for key, value := range h.PAXRecords { // which has the extended attributes once more, with the same text
			n += heldRecord + len(key) + len(value)
		}
	case tar.TypeSymlink, tar.TypeLink: // that may be one to a symlink
		l.links[name] = struct{}{}
		n += heldPath + len(name)
	}
	l.bytes += int64(n)
}

// behindLink reports whether a path leads through a link.
func (l *held) behindLink(name string) bool {
	if len(name) > longest {
		return true // for all that is known of it: it takes long to look at, and no file can have it
	}
	for i := 1; i < len(name) && len(l.links) > 0; i++ {
		if name[i] == '/' {
			if _, ok := l.links[name[:i]]; ok {
				return true
			}
		}
	}
	return false
}

func (b *boundedLayer) Close() error {
	b.cancel()
	b.scanned.CloseWithError(io.ErrClosedPipe)
	<-b.ended
	if b.large {
		b.large = false
		largeHeld.Release(1)
	}
	return b.from.Close()
}
