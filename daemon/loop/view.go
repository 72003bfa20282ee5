package loop

import (
	"time"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/daemon/objects"
)

// View holds the objects of one kind that a pass has looked at. Each is decoded once, changed in place, and written
// once at the end of the pass.
type View[T objects.Object] struct {
	pass     *Pass
	resource string
	empty    func() T
	seen     map[string]*viewed[T]
	changed  []string // in the order of the first change: new pods get their versions in the order of their creation
	// peeked is the object that Peek has decoded last; nobody has changed it since, or it would be among those seen.
	peeked struct {
		key    string
		object T
	}
}

type viewed[T objects.Object] struct {
	object  T
	exists  bool
	changed bool
	size    int // in bytes, as it is stored
}

func newView[T objects.Object](p *Pass, resource string, empty func() T) *View[T] {
	return &View[T]{pass: p, resource: resource, empty: empty, seen: map[string]*viewed[T]{}}
}

// Get returns an object as the pass has left it. It may be changed if Changed is called afterwards.
func (v *View[T]) Get(key string) (obj T, ok bool, err error) {
	if seen, ok := v.seen[key]; ok {
		return seen.object, seen.exists, nil
	}
	stored, ok := v.pass.tx.Get(key)
	if !ok {
		return obj, false, nil
	}
	obj = v.empty()
	if err := objects.Decode(stored, obj); err != nil {
		return obj, false, err
	}
	v.seen[key] = &viewed[T]{object: obj, exists: true, size: len(stored.Value)}
	v.pass.decoded++
	v.pass.bytes += len(stored.Value)
	return obj, true, nil
}

// Peek returns an object as the pass has left it, which must not be changed. It is not held for that, and counts as a step of
// work, but the last one is kept: most callers ask for the same one again, a pod for each of its claims.
func (v *View[T]) Peek(key string) (obj T, ok bool, err error) {
	if seen, ok := v.seen[key]; ok {
		return seen.object, seen.exists, nil
	}
	if v.peeked.key == key {
		return v.peeked.object, true, nil
	}
	stored, ok := v.pass.tx.Get(key)
	if !ok {
		return obj, false, nil
	}
	v.pass.LookedAt(len(stored.Value))
	obj = v.empty()
	if err := objects.Decode(stored, obj); err != nil {
		return obj, true, err
	}
	v.peeked.key, v.peeked.object = key, obj
	return obj, true, nil
}

// Drop lets go of an object that was only read, where very many are.
func (v *View[T]) Drop(key string) {
	if seen, ok := v.seen[key]; ok && seen.exists && !seen.changed {
		delete(v.seen, key)
		v.pass.decoded--
		v.pass.bytes -= seen.size
	}
}

// Changed notes that an object was changed or created, and has to be written.
func (v *View[T]) Changed(key string, obj T) {
	seen, ok := v.seen[key]
	if !ok {
		seen = &viewed[T]{size: scheme.Size(obj)}
		v.seen[key] = seen
	}
	seen.object, seen.exists = obj, true
	if !seen.changed {
		seen.changed = true
		v.changed = append(v.changed, key)
		v.pass.written++ // it will be
		v.pass.bytes += seen.size
	}
}

// Write writes an object now, so that it can have several revisions in one transaction.
func (v *View[T]) Write(key string) error {
	seen := v.seen[key]
	if seen == nil || !seen.changed {
		return nil
	}
	seen.changed = false
	v.pass.bytes -= seen.size // put counts what it is by now
	return v.pass.put(key, seen.object, time.Time{})
}

// Delete removes an object. Changes that were not yet written are part of the last state that watchers see.
func (v *View[T]) Delete(key string) error {
	if err := v.Write(key); err != nil {
		return err
	}
	if seen, ok := v.seen[key]; ok {
		seen.exists = false
	} else {
		v.seen[key] = &viewed[T]{}
	}
	v.pass.Delete(key)
	return nil
}

// flush writes everything that was changed.
func (v *View[T]) flush() error {
	for _, key := range v.changed {
		v.pass.loop.work = work{aside.All, key}
		if err := v.Write(key); err != nil {
			return err
		}
	}
	v.changed = nil
	return nil
}
