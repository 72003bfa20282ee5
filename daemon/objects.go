package daemon

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// view holds the objects of one kind that a pass has looked at: each is decoded once, changed in place, and written
// once when the pass has decided everything.
type view[T object] struct {
	pass     *pass
	resource string
	empty    func() T
	seen     map[string]*viewed[T]
	changed  []string // in the order of the first change: new pods get their versions as they were created
}

type viewed[T object] struct {
	object  T
	exists  bool
	changed bool
}

func newView[T object](p *pass, resource string, empty func() T) *view[T] {
	return &view[T]{pass: p, resource: resource, empty: empty, seen: map[string]*viewed[T]{}}
}

// Get gives an object as the pass has left it. It may be changed if Changed is called then.
func (v *view[T]) Get(key string) (obj T, ok bool, err error) {
	if seen, ok := v.seen[key]; ok {
		return seen.object, seen.exists, nil
	}
	stored, ok := v.pass.tx.Get(key)
	if !ok {
		return obj, false, nil
	}
	obj = v.empty()
	if err := decode(stored, obj); err != nil {
		return obj, false, err
	}
	v.seen[key] = &viewed[T]{object: obj, exists: true}
	v.pass.decoded++
	return obj, true, nil
}

// Changed says that an object was changed or made, and is to be written.
func (v *view[T]) Changed(key string, obj T) {
	seen, ok := v.seen[key]
	if !ok {
		seen = &viewed[T]{}
		v.seen[key] = seen
	}
	seen.object, seen.exists = obj, true
	if !seen.changed {
		seen.changed = true
		v.changed = append(v.changed, key)
		v.pass.written++ // it will be
	}
}

// Write writes an object now: for one that is to have several revisions in one transaction.
func (v *view[T]) Write(key string) error {
	seen := v.seen[key]
	if seen == nil || !seen.changed {
		return nil
	}
	seen.changed = false
	return v.pass.put(key, seen.object)
}

// Delete removes an object. A change that was not yet written becomes the last state that watchers see.
func (v *view[T]) Delete(key string) error {
	if err := v.Write(key); err != nil {
		return err
	}
	if seen, ok := v.seen[key]; ok {
		seen.exists = false
	} else {
		v.seen[key] = &viewed[T]{}
	}
	v.pass.delete(key)
	return nil
}

// Flush writes everything that was changed.
func (v *view[T]) Flush() error {
	for _, key := range v.changed {
		if err := v.Write(key); err != nil {
			return err
		}
	}
	v.changed = nil
	return nil
}

func newPod() *corev1.Pod             { return &corev1.Pod{} }
func newJob() *batchv1.Job            { return &batchv1.Job{} }
func newCronJob() *batchv1.CronJob    { return &batchv1.CronJob{} }
func newNamespace() *corev1.Namespace { return &corev1.Namespace{} }
