package images

import (
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// layer is a tree as an uncompressed layer, written anew each time it is read: nothing is held in memory or on disk.
type layer struct {
	tree   *Tree
	digest v1.Hash
	size   int64
}

func newLayer(t *Tree) (*layer, error) {
	l := &layer{tree: t}
	r, err := l.Uncompressed()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	l.digest, l.size, err = v1.SHA256(r)
	return l, err
}

func (l *layer) Digest() (v1.Hash, error)             { return l.digest, nil }
func (l *layer) DiffID() (v1.Hash, error)             { return l.digest, nil }
func (l *layer) Size() (int64, error)                 { return l.size, nil }
func (l *layer) MediaType() (types.MediaType, error)  { return types.OCIUncompressedLayer, nil }
func (l *layer) Compressed() (io.ReadCloser, error)   { return l.Uncompressed() }
func (l *layer) Uncompressed() (io.ReadCloser, error) { return pipe(l.tree.Write), nil }

// pipe turns a function that writes into a reader. Closing it ends the writer.
func pipe(write func(io.Writer) error) io.ReadCloser {
	r, w := io.Pipe()
	go func() { w.CloseWithError(write(w)) }()
	return r
}
