// Package storage serves objects of the API from the store: it is the storage.Interface that the handlers of
// k8s.io/apiserver write to, and holds the rules of deletion that the handlers and the daemon's loop share.
//
// There is no cache of objects. A list reads the store at one version, which may be a past one as long as the history
// reaches back; a watch is a cursor on the store's log, so a slow watcher costs no memory and one that comes back after
// a restart of the daemon goes on where it was.
package storage

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/jobd/jobd/store"
)

// Storage keeps the objects of one resource.
type Storage struct {
	store     *store.Store
	codec     runtime.Codec
	prefix    string // of the keys that the handlers use: "/jobs.batch"
	newFunc   func() runtime.Object
	versioner storage.Versioner
	now       func() time.Time
	bookmarks time.Duration // how often watchers that want bookmarks get one
	shares    shares

	// Admit may refuse an object that is about to be written at a key, in the transaction that writes it; nil refuses none.
	Admit func(ctx context.Context, tx *store.Tx, key string, obj runtime.Object) error
	// Panicked returns the error by which a watch ends that has panicked for a reason; nil: it panics.
	Panicked func(ctx context.Context, reason any) error
}

var _ storage.Interface = &Storage{}

// New returns the storage of one resource. resourcePrefix begins with a slash; the handlers put it before an object's key
// (generic.RESTOptions.ResourcePrefix). The key in the store is that of the handlers without the leading slash: it agrees with
// store.Key if the prefix is "/" and the string of the GroupResource.
func New(s *store.Store, codec runtime.Codec, resourcePrefix string, newFunc func() runtime.Object) *Storage {
	return &Storage{
		store:     s,
		codec:     codec,
		prefix:    resourcePrefix,
		newFunc:   newFunc,
		versioner: storage.APIObjectVersioner{},
		now:       time.Now,
		bookmarks: time.Minute,
	}
}

// Versioner returns Kubernetes' own: resource versions are the store's versions in decimal.
func (s *Storage) Versioner() storage.Versioner { return s.versioner }

// key turns a key of the handlers into one of the store.
func (s *Storage) key(key string, recursive bool) (string, error) {
	key, err := storage.PrepareKey(s.prefix, key, recursive)
	if err != nil {
		return "", apierrors.NewBadRequest(err.Error()) // a namespace of two dots
	}
	return strings.TrimPrefix(key, "/"), nil
}

// Create adds an object. A ttl, in seconds, makes it one that Expire deletes.
func (s *Storage) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	if version, err := s.versioner.ObjectResourceVersion(obj); err == nil && version != 0 {
		return storage.ErrResourceVersionSetOnCreate
	}
	o, err := s.encode(key, obj)
	if err != nil {
		return err
	}
	o.Expires = s.expires(ttl)
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		if there, ok := tx.Get(key); ok {
			return storage.NewKeyExistsError(key, int64(there.Version))
		}
		if err := s.admit(ctx, tx, key, obj); err != nil {
			return err
		}
		noteCreator(ctx, tx, o)
		_, err := Put(tx, &o)
		return err
	})
	if err != nil {
		return interpret(key, err)
	}
	if out == nil {
		return nil
	}
	return s.decode(key, o.Value, o.Version, out)
}

// Get reads an object.
func (s *Storage) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	h := hold(ctx, 1)
	if ctx.Value(updatingKey{}) != nil {
		h = hold(ctx, updateFactor)
		h.answer = h.factor // what is tried begins when this has ended
	}
	defer h.end()
	return interpret(key, s.read(key, h, func(sn *store.Snapshot, o store.Object, ok bool) error {
		if err := s.notOlderThan(opts.ResourceVersion, sn.Version()); err != nil {
			return err
		}
		switch {
		case ok:
			return s.decode(key, o.Value, o.Version, out)
		case opts.IgnoreNotFound:
			return runtime.SetZeroValue(out)
		}
		return storage.NewKeyNotFoundError(key, 0)
	}))
}

// read calls do with the object at a key, once what it takes is counted. Whoever waits for that keeps no snapshot.
func (s *Storage) read(key string, h *holding, do func(sn *store.Snapshot, o store.Object, ok bool) error) error {
	size, weighed := 0, uint64(0)
	for {
		covered := false
		err := s.store.View(func(sn *store.Snapshot) error {
			o, ok := sn.Get(key)
			if ok && o.Version != weighed {
				size, weighed = s.weigh(h.ctx, o), o.Version
			}
			if ok && !h.covers(size) {
				return nil
			}
			covered = true
			return do(sn, o, ok)
		})
		if err != nil || covered {
			return err
		}
		if err := h.grow(size); err != nil {
			return err
		}
	}
}

// state is the state of an object at the start of an update.
type state struct {
	object  runtime.Object // the zero value when there was none; nil when it cannot be decoded
	stored  store.Object   // with a value of its own
	version uint64         // 0 when there was none
}

// current reads the object at the start of an update; it is of like's type.
func (s *Storage) current(key string, h *holding, like runtime.Object, ignoreNotFound bool) (*state, error) {
	st := &state{}
	err := s.read(key, h, func(_ *store.Snapshot, o store.Object, ok bool) error {
		if ok {
			st.stored, st.version = o, o.Version
			st.stored.Value = bytes.Clone(o.Value)
		}
		return nil
	})
	if err != nil {
		return nil, interpret(key, err)
	}
	if st.version == 0 && !ignoreNotFound {
		return nil, storage.NewKeyNotFoundError(key, 0)
	}
	v, err := conversion.EnforcePtr(like)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	st.object = newLike(v)
	if st.version == 0 {
		return st, nil
	}
	return st, s.decode(key, st.stored.Value, st.version, st.object)
}

// GuaranteedUpdate changes an object by tryUpdate, again when the object has changed meanwhile. tryUpdate runs outside
// the store's transaction, since it admits and validates and may take long.
func (s *Storage) GuaranteedUpdate(
	ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool, preconditions *storage.Preconditions,
	tryUpdate storage.UpdateFunc, _ runtime.Object,
) error {
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	h := hold(ctx, updateFactor)
	defer h.end()
	for {
		st, err := s.current(key, h, destination, ignoreNotFound)
		if err != nil {
			return err
		}
		if err := preconditions.Check(key, st.object); err != nil {
			return err
		}
		updated, ttl, err := tryUpdate(st.object,
			storage.ResponseMeta{ResourceVersion: st.version, TTL: s.ttl(st.stored)})
		if err != nil {
			return err
		}
		o, err := s.encode(key, updated)
		if err != nil {
			return err
		}
		o.Expires = st.stored.Expires
		if ttl != nil {
			o.Expires = s.expires(*ttl)
		}
		version := st.version
		// An update that changes nothing is not written. A TTL alone is no change; otherwise an event that is seen
		// again would be written only because of it.
		if st.version == 0 || !bytes.Equal(o.Value, st.stored.Value) {
			var moved bool
			version, moved, err = s.replace(ctx, st.version, updated, &o)
			if err != nil {
				return interpret(key, err)
			}
			if moved {
				continue
			}
		}
		return s.decode(key, o.Value, version, destination)
	}
}

// replace puts an object if it still has a version; moved reports that it has not.
func (s *Storage) replace(
	ctx context.Context, from uint64, updated runtime.Object, o *store.Object,
) (version uint64, moved bool, err error) {
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		if there, _ := tx.Get(o.Key); there.Version != from {
			moved = true
			return nil
		}
		if err := s.admit(ctx, tx, o.Key, updated); err != nil {
			return err
		}
		if from == 0 { // server-side apply makes objects by an update
			noteCreator(ctx, tx, *o)
		}
		_, err := Put(tx, o)
		return err
	})
	return o.Version, moved, err
}

type checkKey struct{}

// Checking has check refuse an object that a request is about to write, in the transaction that writes it.
func Checking(ctx context.Context, check func(s *store.Snapshot, obj runtime.Object) error) context.Context {
	return context.WithValue(ctx, checkKey{}, check)
}

// admit calls what the request has for that, and Admit if there is one.
func (s *Storage) admit(ctx context.Context, tx *store.Tx, key string, obj runtime.Object) error {
	if check, ok := ctx.Value(checkKey{}).(func(*store.Snapshot, runtime.Object) error); ok {
		if err := check(tx.Snapshot, obj); err != nil {
			return err
		}
	}
	if s.Admit == nil {
		return nil
	}
	return s.Admit(ctx, tx, key, obj)
}

// Delete removes an object. With ExpectTransformOrDecodeError it removes only objects that cannot be decoded.
func (s *Storage) Delete(
	ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, _ runtime.Object, opts storage.DeleteOptions,
) error {
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	h := hold(ctx, deleteFactor)
	defer h.end()
	for {
		st, err := s.current(key, h, out, false)
		switch unreadable := storage.IsCorruptObject(err); {
		case opts.ExpectTransformOrDecodeError && unreadable:
			st.object = nil
		case opts.ExpectTransformOrDecodeError && err == nil:
			return storage.NewInvalidObjError(key,
				"unsafe deletion is not allowed because the object is decodable from storage")
		case err != nil:
			return err
		}
		if st.object != nil {
			if err := preconditions.Check(key, st.object); err != nil {
				return err
			}
		}
		if err := validate(ctx, st.object); err != nil {
			return err
		}
		version, moved, err := s.remove(ctx, key, st.version)
		if err != nil {
			return interpret(key, err)
		}
		if moved {
			continue
		}
		if st.object == nil {
			return nil
		}
		return s.decode(key, st.stored.Value, version, out)
	}
}

// remove deletes an object if it still has a version; moved reports that it has not.
func (s *Storage) remove(ctx context.Context, key string, from uint64) (version uint64, moved bool, err error) {
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		if there, _ := tx.Get(key); there.Version != from {
			moved = true
			return nil
		}
		version, _, err = Delete(tx, key)
		return err
	})
	return version, moved, err
}

// notOlderThan reports whether a read at a version serves a request for one that is at least as new as wanted.
func (s *Storage) notOlderThan(wanted string, have uint64) error {
	version, err := s.versioner.ParseResourceVersion(wanted)
	if err != nil {
		return badVersion(err)
	}
	if version > have {
		return storage.NewTooLargeResourceVersionError(version, have, 0)
	}
	return nil
}
