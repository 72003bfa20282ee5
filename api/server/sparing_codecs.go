package server

import (
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// mostKept is how large the buffers may be that a watch keeps from one event to the next.
const mostKept = 16 << 10

// sparingCodecs make encoders that leave no large buffers behind. Those of a watch would keep what its largest event took, two or
// three times, until it ends: thousands of watches may wait for the next event. When it comes, they encode it a few at a time: each takes
// milliseconds of a processor, and every step of other requests would wait for all of them.
type sparingCodecs struct {
	runtime.NegotiatedSerializer
	turns chan struct{}
}

// EncoderForVersion implements runtime.NegotiatedSerializer.
func (c sparingCodecs) EncoderForVersion(of runtime.Encoder, gv runtime.GroupVersioner) runtime.Encoder {
	made := c.NegotiatedSerializer.EncoderForVersion(of, gv)
	if allocates, ok := made.(runtime.EncoderWithAllocator); ok {
		return sparingEncoder{allocates, c.turns}
	}
	return made
}

type sparingEncoder struct {
	runtime.EncoderWithAllocator
	turns chan struct{}
}

func (e sparingEncoder) Encode(obj runtime.Object, w io.Writer) error {
	defer e.turn(w)()
	return e.EncoderWithAllocator.Encode(obj, sparingWriter(w))
}

func (e sparingEncoder) EncodeWithAllocator(obj runtime.Object, w io.Writer, a runtime.MemoryAllocator) error {
	defer e.turn(w)()
	return e.EncoderWithAllocator.EncodeWithAllocator(obj, sparingWriter(w), sparingAllocator{a})
}

// turn waits for a turn to encode, and returns what ends it. What is sent to a client while it is encoded takes none, as that may wait for
// the client.
func (e sparingEncoder) turn(w io.Writer) (end func()) {
	if _, buffered := w.(runtime.Splice); !buffered {
		return func() {}
	}
	e.turns <- struct{}{}
	return func() { <-e.turns }
}

// sparingAllocator keeps no large memory.
type sparingAllocator struct{ runtime.MemoryAllocator }

func (a sparingAllocator) Allocate(n uint64) []byte {
	if n > mostKept {
		return make([]byte, n)
	}
	return a.MemoryAllocator.Allocate(n)
}

// sparingWriter returns a writer to one that keeps the buffer in which it collects what is written, if it is such a one.
func sparingWriter(w io.Writer) io.Writer {
	if to, ok := w.(runtime.Splice); ok {
		return sparingSplice{to}
	}
	return w
}

// sparingSplice hands over what is large instead of letting it be copied to the buffer, which would grow.
type sparingSplice struct{ to runtime.Splice }

var _ runtime.Splice = sparingSplice{}

func (s sparingSplice) Splice(b []byte) { s.to.Splice(b) }

func (s sparingSplice) Reset() { s.to.Reset() }

func (s sparingSplice) Bytes() []byte { return s.to.Bytes() }

func (s sparingSplice) Write(b []byte) (int, error) {
	before := s.to.Bytes()
	if len(before)+len(b) <= mostKept {
		return s.to.Write(b)
	}
	all := append(slices.Clip(before), b...)
	s.to.Reset()
	s.to.Splice(all)
	return len(b), nil
}
