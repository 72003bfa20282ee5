package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"compress/bzip2"
	"compress/flate"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/images/archive"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/klauspost/compress/zstd"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/jobd/jobd/runtime"
)

// Import imports the images of an archive, which is an OCI layout or the output of docker save, possibly compressed,
// and unpacks them. The archive is read once from start to end. With a name the only image of the archive gets that
// name; without one the archive has to name its images. If Import fails, it leaves none of the archive's images.
func (i *Images) Import(ctx context.Context, r io.Reader, name string) (_ []runtime.Image, err error) {
	ctx = i.inNamespace(ctx)
	if name != "" {
		if name, err = Normalize(name); err != nil {
			return nil, err
		}
		if digested(name) {
			return nil, fmt.Errorf("import as %s: an archive cannot be given a digest as its name: %w", name,
				errdefs.ErrInvalidArgument)
		}
	}
	return i.importAs(ctx, r, name, nil, &transfer{name: cmp.Or(name, "archive"), isImport: true})
}

// importAs does what Import does, with labels for the images.
func (i *Images) importAs(ctx context.Context, r io.Reader, name string, labels map[string]string, t *transfer) (_ []runtime.Image, err error) {
	ctx, release, err := i.leased(ctx)
	if err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	defer func() { release(err != nil) }()

	defer i.transfers.begin(t)()
	var index imagespec.Index
	err = i.inRoom(ctx, func(ctx context.Context) (err error) {
		index, err = i.ingest(ctx, r, t)
		return err
	})
	if err != nil {
		if errors.Is(err, errNoRoom) {
			return nil, fmt.Errorf("import: %w", err)
		}
		return nil, err
	}
	found, err := i.choose(ctx, index, name)
	if err != nil {
		return nil, err
	}
	var list []runtime.Image
	for n, f := range found {
		f.Labels = labels
		found[n] = f
		if err := i.keepContent(ctx, f.Target); err != nil {
			return nil, fmt.Errorf("import %s: %w", f.Name, err)
		}
		img, err := i.unpacked(ctx, client.NewImageWithPlatform(i.client, f, i.platform))
		if err != nil {
			return nil, fmt.Errorf("import: %w", imageError(err))
		}
		list = append(list, img)
	}
	defer i.forget()
	for _, f := range found {
		if err := i.await(ctx, f.Name); err != nil {
			return nil, fmt.Errorf("import %s: %w", f.Name, err)
		}
		if err := i.record(ctx, f); err != nil {
			return nil, fmt.Errorf("import %s: %w", f.Name, err)
		}
	}
	return list, nil
}

// ingest stores the content of an archive and returns its index.
func (i *Images) ingest(ctx context.Context, r io.Reader, t *transfer) (imagespec.Index, error) {
	source := &source{ctx: ctx, r: r, transfer: t}
	compressed, err := decompress(ctx, source)
	if err != nil {
		return imagespec.Index{}, fmt.Errorf("import: %w", source.wrap(archiveError(err)))
	}
	plain := newArchive(ctx, compressed)
	defer plain.Close()
	if _, err := plain.Peek(1); err == io.EOF && source.err == nil {
		return imagespec.Index{}, fmt.Errorf("import: the archive is empty: what was to write it may have failed: %w", errdefs.ErrInvalidArgument)
	}
	store := ownRefs{i.content, rand.Text()}
	target, err := archive.ImportIndex(ctx, store, plain)
	if err == nil {
		// After the end of the archive comes padding. It is read so that the sender sees no broken pipe.
		_, err = io.Copy(io.Discard, io.LimitReader(plain, 1<<20))
	}
	if err != nil {
		return imagespec.Index{}, fmt.Errorf("import: %w", source.wrap(archiveError(err)))
	}
	raw, err := content.ReadBlob(ctx, store, target)
	if err != nil {
		return imagespec.Index{}, fmt.Errorf("import: read the archive's index: %w", err)
	}
	var index imagespec.Index
	if err := json.Unmarshal(raw, &index); err != nil {
		return imagespec.Index{}, fmt.Errorf("import: the archive's index: %w: %w", err, errdefs.ErrInvalidArgument)
	}
	return index, nil
}

// decompress returns what is in an archive that may be compressed in one of the ways that docker load knows.
func decompress(ctx context.Context, r io.Reader) (io.ReadCloser, error) {
	buffered := bufio.NewReader(r)
	begin, err := buffered.Peek(6)
	switch {
	case len(begin) == 0 && err == io.EOF:
		return io.NopCloser(buffered), nil
	case bytes.HasPrefix(begin, []byte("BZh")):
		return io.NopCloser(bzip2.NewReader(buffered)), nil
	case bytes.HasPrefix(begin, []byte("\xfd7zXZ\x00")):
		return unxz(ctx, buffered)
	}
	return decompressed(ctx, buffered)
}

// unxz has xz(1) decompress an archive, whose header says how much memory that takes.
func unxz(ctx context.Context, r io.Reader) (io.ReadCloser, error) {
	program, err := exec.LookPath("xz")
	if err != nil {
		return nil, fmt.Errorf("the archive is compressed by xz, which is not installed here: xz -dc FILE | jobctl image import -: %w",
			errdefs.ErrInvalidArgument)
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, program, "-dc", "--memlimit-decompress=256MiB")
	said := &bytes.Buffer{}
	cmd.Stdin, cmd.Stderr, cmd.WaitDelay = r, said, time.Second
	cmd.Env = []string{"LC_ALL=C"}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("xz: %w", err)
	}
	return &decompressing{out: out, cmd: cmd, cancel: cancel, said: said}, nil
}

// decompressing is the output of a program. Its end is that of the program, and its error if that fails.
type decompressing struct {
	out    io.Reader
	cmd    *exec.Cmd
	cancel context.CancelFunc
	said   *bytes.Buffer
	end    error // of the program
}

func (d *decompressing) Read(p []byte) (int, error) {
	if d.end != nil {
		return 0, d.end
	}
	n, err := d.out.Read(p)
	if err == nil || n > 0 {
		return n, nil
	}
	if d.end = io.EOF; d.cmd.Wait() != nil {
		_, said, _ := strings.Cut(strings.TrimSpace(d.said.String()), "(stdin): ")
		d.end = fmt.Errorf("xz cannot decompress the archive: %s: %w", said, errdefs.ErrInvalidArgument)
	}
	return 0, d.end
}

func (d *decompressing) Close() error {
	d.cancel()
	if d.end == nil {
		_ = d.cmd.Wait() // it was killed
	}
	return nil
}

// choose decides which images of an index are imported, and under which names.
func (i *Images) choose(ctx context.Context, index imagespec.Index, name string) ([]images.Image, error) {
	names, err := named(index)
	if err != nil {
		return nil, err
	}
	if name != "" {
		targets := distinct(index.Manifests)
		if len(targets) > 1 {
			return nil, fmt.Errorf("import as %s: the archive holds %d images: %w", name, len(targets),
				errdefs.ErrInvalidArgument)
		}
		names = []images.Image{{Name: name, Target: targets[0]}}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("import: the archive does not say what its image is called, give it a name: %w",
			errdefs.ErrInvalidArgument)
	}
	for _, n := range names {
		if err := checkDigest(n); err != nil {
			return nil, err
		}
		if _, err := i.manifest(ctx, n.Target); err != nil {
			return nil, fmt.Errorf("import %s: %w", n.Name, archiveError(i.platformError(ctx, n.Target, err)))
		}
	}
	return names, nil
}

// maxImages bounds the images and names of an archive, for each of which its manifest is read: an index of 4 MB has room for
// 20,000.
const maxImages = 1000

// named returns the images of an index that have a name.
func named(index imagespec.Index) ([]images.Image, error) {
	switch n := len(index.Manifests); {
	case n == 0:
		return nil, fmt.Errorf("import: the archive holds no image: %w", errdefs.ErrInvalidArgument)
	case n > maxImages:
		return nil, fmt.Errorf("import: the archive holds %d images and names of images, more than %d: %w", n, maxImages, errdefs.ErrInvalidArgument)
	}
	var list []images.Image
	for _, m := range index.Manifests {
		name := m.Annotations[images.AnnotationImageName]
		// An OCI layout may have a bare tag here, which is not a name.
		if ref := m.Annotations[imagespec.AnnotationRefName]; name == "" && strings.ContainsAny(ref, ":/@") {
			name = ref
		}
		if name == "" {
			continue
		}
		full, err := Normalize(name)
		if err != nil {
			return nil, fmt.Errorf("import: %w", err)
		}
		m.Annotations = nil
		if !slices.ContainsFunc(list, func(i images.Image) bool { return i.Name == full }) {
			list = append(list, images.Image{Name: full, Target: m})
		}
	}
	return list, nil
}

// checkDigest refuses a name with a digest that is not that of the content: pods name such an image to get that content and
// nothing else.
func checkDigest(img images.Image) error {
	named, err := reference.ParseNormalizedNamed(img.Name)
	if err != nil {
		return fmt.Errorf("import: %w: %w", err, errdefs.ErrInvalidArgument)
	}
	if pinned, ok := named.(reference.Canonical); ok && pinned.Digest() != img.Target.Digest {
		return fmt.Errorf("import: the archive names %s, but the digest of what it holds is %s; --name gives it another name: %w",
			img.Name, img.Target.Digest, errdefs.ErrInvalidArgument)
	}
	return nil
}

func distinct(manifests []imagespec.Descriptor) []imagespec.Descriptor {
	var list []imagespec.Descriptor
	for _, m := range manifests {
		if !slices.ContainsFunc(list, func(d imagespec.Descriptor) bool { return d.Digest == m.Digest }) {
			m.Annotations = nil
			list = append(list, m)
		}
	}
	return list
}

// keepContent links the content of an image together, so that it is kept as long as the image.
func (i *Images) keepContent(ctx context.Context, target imagespec.Descriptor) error {
	store := i.client.ContentStore()
	handler := images.SetChildrenLabels(store, images.FilterPlatforms(images.ChildrenHandler(i.client.ContentStore()), i.platform))
	return archiveError(images.WalkNotEmpty(ctx, handler, target))
}

// record makes the name stand for the image, whatever a registry has under that name.
func (i *Images) record(ctx context.Context, img images.Image) error {
	service := i.client.ImageService()
	for {
		_, err := service.Create(ctx, img)
		if !errdefs.IsAlreadyExists(err) {
			return err
		}
		if _, err = service.Update(ctx, img, "target", "labels"); !errdefs.IsNotFound(err) {
			return err
		}
	}
}

// archiveError classifies an error of reading an archive: unless this machine caused it, the archive is at fault.
func archiveError(err error) error {
	_, system := errors.AsType[syscall.Errno](err)
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, errNoRoom):
		return err
	case diskFull(err):
		return fmt.Errorf("%w: %w", err, errdefs.ErrResourceExhausted)
	case system:
		return err
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fmt.Errorf("the archive is cut short: %w: %w", err, errdefs.ErrInvalidArgument)
	case damaged(err):
		return fmt.Errorf("the archive is damaged: %w: %w", err, errdefs.ErrInvalidArgument)
	case errors.Is(err, tar.ErrHeader):
		return fmt.Errorf("this is not an archive of images: %w: %w", err, errdefs.ErrInvalidArgument)
	case errdefs.IsNotFound(err):
		return fmt.Errorf("the archive is not complete: %w: %w", err, errdefs.ErrInvalidArgument)
	case errors.Is(errdefs.Resolve(err), errdefs.ErrUnknown):
		return fmt.Errorf("this is not an archive of images, which have a manifest.json or an index.json: %w; if it is a root file system, "+
			"make an image of it: docker import FILE NAME:TAG && jobctl image import docker://NAME:TAG: %w",
			err, errdefs.ErrInvalidArgument)
	}
	return err
}

// damaged reports whether what is compressed cannot be decompressed.
func damaged(err error) bool {
	_, bzip := errors.AsType[bzip2.StructuralError](err)
	_, deflate := errors.AsType[flate.CorruptInputError](err)
	return bzip || deflate || errors.Is(err, gzip.ErrChecksum)
}

// imageError classifies an error of unpacking an image of an archive, which is one.
func imageError(err error) error {
	_, system := errors.AsType[syscall.Errno](err)
	broken := errors.Is(err, tar.ErrHeader) || errors.Is(errdefs.Resolve(err), errdefs.ErrUnknown)
	if !system && !diskFull(err) && broken && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return fmt.Errorf("a layer of the image is broken: %w: %w", err, errdefs.ErrInvalidArgument)
	}
	return archiveError(err)
}

// source reads an archive until ctx ends, and remembers whether reading failed: in that case the archive is not at
// fault.
type source struct {
	ctx      context.Context
	r        io.Reader
	transfer *transfer
	err      error
}

func (s *source) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		s.err = err
		return 0, err
	}
	n, err := s.r.Read(p)
	s.transfer.received.Add(int64(n))
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

func (s *source) wrap(err error) error {
	if s.err == nil {
		return err
	}
	return fmt.Errorf("read the archive: %w", s.err)
}

// ownRefs gives each import its own refs in the content store. Otherwise an import would wait for another one with a
// blob of the same name, or continue where an import that was broken off has left its blob.
type ownRefs struct {
	content.Store
	prefix string
}

// ReaderAt refuses documents that must not be decoded.
func (o ownRefs) ReaderAt(ctx context.Context, d imagespec.Descriptor) (content.ReaderAt, error) {
	if images.IsIndexType(d.MediaType) || images.IsManifestType(d.MediaType) || images.IsConfigType(d.MediaType) {
		return documents{o.Store}.ReaderAt(ctx, d)
	}
	r, err := o.Store.ReaderAt(ctx, d)
	if err != nil {
		return nil, err
	}
	// containerd looks into layers, to see how they are compressed.
	begin := make([]byte, zstd.HeaderMaxSize)
	n, err := r.ReadAt(begin, 0)
	if err == io.EOF {
		err = nil
	}
	if err == nil {
		err = checkWindow(begin[:n])
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (o ownRefs) Writer(ctx context.Context, opts ...content.WriterOpt) (content.Writer, error) {
	var w content.WriterOpts
	for _, opt := range opts {
		if err := opt(&w); err != nil {
			return nil, err
		}
	}
	return o.Store.Writer(ctx, append(opts, content.WithRef(o.prefix+"-"+w.Ref))...)
}
