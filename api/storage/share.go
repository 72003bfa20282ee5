package storage

import (
	"bytes"
	"io"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What is kept of the latest changes for watchers that are not as fast as the first one, of each resource: this many
// states, and no more than these bytes as they are stored.
const (
	maxShared      = 512
	maxSharedBytes = 512 << 10
)

// shares holds the states of objects that the latest changes have made, while several watchers want them: each is
// decoded once, and encoded once for all clients that want it in the same form.
type shares struct {
	mu        sync.Mutex
	watchers  int
	states    map[shareKey]*shared
	order     []shareKey // as they came
	bytes     int
	forgotten uint64 // version up to which some are gone: a watcher behind it reads for itself
}

// shareKey identifies the state of an object after a change, or the one before it.
type shareKey struct {
	version uint64
	before  bool
}

func (s *shares) join() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers++
}

func (s *shares) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watchers--; s.watchers < 2 {
		s.states, s.order, s.bytes = nil, nil, 0
	}
}

// get returns the shared state for a key, of that many bytes; nil if it is not to be shared.
func (s *shares) get(key shareKey, size int) *shared {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state, ok := s.states[key]; ok {
		return state
	}
	if s.watchers < 2 || key.version <= s.forgotten {
		return nil
	}
	for len(s.order) > 0 && (len(s.order) >= maxShared || s.bytes+size > maxSharedBytes) {
		oldest := s.order[0]
		s.order = s.order[1:]
		s.bytes -= s.states[oldest].size
		delete(s.states, oldest)
		s.forgotten = max(s.forgotten, oldest.version)
	}
	state := &shared{size: size}
	if s.states == nil {
		s.states = map[shareKey]*shared{}
	}
	s.states[key] = state
	s.order = append(s.order, key)
	s.bytes += size
	return state
}

// shared is one state of an object for several watchers. Nobody changes the object.
type shared struct {
	size int

	decoding sync.Once
	object   runtime.Object
	err      error

	mu      sync.Mutex
	encoded map[runtime.Identifier]*encoding
}

var _ runtime.CacheableObject = &shared{}

type encoding struct {
	once sync.Once
	data []byte
	err  error
}

func (s *shared) decode(decode func() (runtime.Object, error)) error {
	s.decoding.Do(func() { s.object, s.err = decode() })
	return s.err
}

// CacheEncode writes what encode makes of the object. It is asked only once for each identifier.
func (s *shared) CacheEncode(id runtime.Identifier, encode func(runtime.Object, io.Writer) error, w io.Writer) error {
	s.mu.Lock()
	e, ok := s.encoded[id]
	if !ok {
		e = &encoding{}
		if s.encoded == nil {
			s.encoded = map[runtime.Identifier]*encoding{}
		}
		s.encoded[id] = e
	}
	s.mu.Unlock()
	e.once.Do(func() {
		var buffer bytes.Buffer
		e.err = encode(s.GetObject(), &buffer) // of a copy, since encoders set its kind
		e.data = buffer.Bytes()
	})
	if e.err != nil {
		return e.err
	}
	if b, ok := w.(runtime.Splice); ok {
		b.Splice(e.data)
		return nil
	}
	_, err := w.Write(e.data)
	return err
}

// GetObject returns a copy of the object.
func (s *shared) GetObject() runtime.Object { return s.object.DeepCopyObject() }

// DeepCopyObject returns a copy of the object, which is not shared.
func (s *shared) DeepCopyObject() runtime.Object { return s.object.DeepCopyObject() }

// GetObjectKind returns the kind of the object, which is not to be set.
func (s *shared) GetObjectKind() schema.ObjectKind { return s.object.GetObjectKind() }

// GetObjectMeta returns the metadata of the object, which are not to be changed.
func (s *shared) GetObjectMeta() metav1.Object {
	m, err := meta.Accessor(s.object)
	if err != nil {
		return nil
	}
	return m
}
