package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/errdefs"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A part of an image that is here already is not fetched again, but whoever knows its digest need not have it: digests stand in the
// status of the Node, in pods and in build logs. So a registry that names a part which did not come from that repository has to show
// that it has it: a document as a whole, a layer by some bytes at a place that it cannot guess.

// sample is how many bytes of a layer a registry has to show.
const sample = 4 << 10

// possessed is the label of a part that says that a repository has shown it. Those of containerd (distribution.source) leave out ports.
func possessed(repository string) string {
	sum := sha256.Sum256([]byte(repository))
	return "jobd.dev/of-" + hex.EncodeToString(sum[:12])
}

// possession is what proves that one repository has what is here.
type possession struct {
	content content.Store
	from    remotes.Fetcher
	label   string
}

// prove returns an error if a part is here, has not come from the repository, and the registry does not have it.
func (p possession) prove(ctx context.Context, d imagespec.Descriptor) error {
	info, err := p.content.Info(ctx, d.Digest)
	if errdefs.IsNotFound(err) {
		return nil // it will be fetched
	} else if err != nil {
		return err
	}
	if _, ok := info.Labels[p.label]; ok || info.Size == 0 {
		return nil
	}
	offset, length := int64(0), info.Size
	if images.IsLayerType(d.MediaType) {
		length = min(length, sample)
		offset = rand.Int64N(info.Size - length + 1)
	} else if length > maxMetadata {
		return checkSize("document", length)
	}
	theirs, err := p.read(ctx, d, offset, length)
	if err != nil {
		return fmt.Errorf("%s is here, and did not come from this repository: %w", d.Digest, err)
	}
	have, err := p.content.ReaderAt(ctx, d)
	if err != nil {
		return err
	}
	defer have.Close()
	ours := make([]byte, length)
	if _, err := have.ReadAt(ours, offset); err != nil && err != io.EOF {
		return err
	}
	if !bytes.Equal(ours, theirs) {
		return fmt.Errorf("the registry has something else for %s: %w", d.Digest, errdefs.ErrDataLoss)
	}
	return nil
}

// read returns some bytes of what the registry has.
func (p possession) read(ctx context.Context, d imagespec.Descriptor, offset, length int64) ([]byte, error) {
	r, err := p.from.Fetch(ctx, d)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if offset > 0 {
		s, ok := r.(io.Seeker)
		if !ok {
			return nil, fmt.Errorf("what is fetched cannot be sought in: %w", errdefs.ErrNotImplemented)
		}
		if _, err := s.Seek(offset, io.SeekStart); err != nil {
			return nil, err
		}
	}
	b := make([]byte, length)
	_, err = io.ReadFull(r, b)
	return b, err
}

// shown notes that the repository has shown a part, or has sent it.
func (p possession) shown(ctx context.Context, d imagespec.Descriptor) error {
	info, err := p.content.Info(ctx, d.Digest)
	if errdefs.IsNotFound(err) {
		return nil // a layer that is unpacked already
	} else if err != nil {
		return err
	}
	if _, ok := info.Labels[p.label]; ok {
		return nil
	}
	_, err = p.content.Update(ctx, content.Info{Digest: d.Digest, Labels: map[string]string{p.label: "true"}}, "labels."+p.label)
	return err
}
