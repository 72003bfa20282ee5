package server

import (
	"bytes"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/jobd/jobd/api/scheme"
)

// TestEncodersKeepNoLargeBuffers encodes as a watch does: with an allocator and a buffer that it keeps.
func TestEncodersKeepNoLargeBuffers(t *testing.T) {
	for _, info := range scheme.Codecs.SupportedMediaTypes() {
		for _, size := range []int{10, 1 << 20} {
			obj := &corev1.ConfigMap{Data: map[string]string{"x": strings.Repeat("x", size)}}
			plain := scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion)
			var want bytes.Buffer
			if err := plain.Encode(obj.DeepCopy(), &want); err != nil {
				t.Fatal(err)
			}
			e := sparingCodecs{scheme.Codecs, make(chan struct{}, 1)}.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion)
			if e.Identifier() != plain.Identifier() {
				t.Error("it is taken for another encoder")
			}
			allocator, buffer := &runtime.Allocator{}, &keeps{splice: runtime.NewSpliceBuffer()}
			for range 2 {
				if err := runtime.NewEncoderWithAllocator(e.(runtime.EncoderWithAllocator), allocator).Encode(obj.DeepCopy(), buffer); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(buffer.Bytes(), want.Bytes()) {
					t.Errorf("%s is written in another way", info.MediaType)
				}
				buffer.Reset()
			}
			if kept := cap(allocator.Allocate(1)); kept > 3*mostKept || buffer.most > mostKept {
				t.Errorf("%s: %d bytes are kept, and %d in the buffer", info.MediaType, kept, buffer.most)
			}
		}
	}
}

// keeps notes the most that is written to a buffer at once, which it keeps.
type keeps struct {
	splice
	most int
}

type splice = runtime.Splice

func (k *keeps) Write(b []byte) (int, error) {
	k.most = max(k.most, len(b))
	return k.splice.Write(b)
}

// TestWritesToASpliceAreOneAfterTheOther has small and large ones.
func TestWritesToASpliceAreOneAfterTheOther(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		to := runtime.NewSpliceBuffer()
		w := sparingWriter(to)
		var want []byte
		for i, n := range rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 100, mostKept - 1, mostKept, mostKept + 1}), 1, 5).Draw(rt, "sizes") {
			b := bytes.Repeat([]byte{byte(i)}, n)
			want = append(want, b...)
			if written, err := w.Write(b); written != n || err != nil {
				rt.Fatal(written, err)
			}
			clear(b)
		}
		if !bytes.Equal(to.Bytes(), want) {
			rt.Fatalf("%d bytes, want %d", len(to.Bytes()), len(want))
		}
	})
}

// TestWatchesEncodeInTurns: what goes to a client while it is encoded waits for no turn, and takes none, as it may wait for the client.
func TestWatchesEncodeInTurns(t *testing.T) {
	turns := make(chan struct{}, 1)
	turns <- struct{}{}
	info := scheme.Codecs.SupportedMediaTypes()[0]
	e := sparingCodecs{scheme.Codecs, turns}.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion)
	if err := e.Encode(&corev1.ConfigMap{}, &bytes.Buffer{}); err != nil {
		t.Error(err)
	}
	for name, e := range map[string]runtime.Encoder{
		"as it is": e, "with an allocator": runtime.NewEncoderWithAllocator(e.(runtime.EncoderWithAllocator), &runtime.Allocator{}),
	} {
		encoded := make(chan error)
		go func() { encoded <- e.Encode(&corev1.ConfigMap{}, runtime.NewSpliceBuffer()) }()
		select {
		case err := <-encoded:
			t.Errorf("%s: encoded out of turn, %v", name, err)
		case <-time.After(50 * time.Millisecond):
		}
		<-turns
		if err := <-encoded; err != nil {
			t.Error(err)
		}
		turns <- struct{}{}
	}
}
