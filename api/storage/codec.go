package storage

import (
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/jobd/jobd/store"
)

// maxObject bounds an object as it is stored, in bytes. A request may have as many, but without a bound here an object
// would grow with each patch.
const maxObject = 3 << 20

// encode returns obj in its stored form, and clears obj's resourceVersion, which the store assigns.
func (s *Storage) encode(key string, obj runtime.Object) (store.Object, error) {
	if err := s.versioner.PrepareObjectForStorage(obj); err != nil {
		return store.Object{}, fmt.Errorf("%s: prepare for storage: %w", key, err)
	}
	value, err := runtime.Encode(s.codec, obj)
	if err != nil {
		return store.Object{}, err
	}
	if len(value) > maxObject {
		return store.Object{}, apierrors.NewRequestEntityTooLargeError(
			fmt.Sprintf("the object would have %d bytes: at most %d are allowed", len(value), maxObject))
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return store.Object{}, err
	}
	o := store.Object{Key: key, UID: string(m.GetUID()), Value: value}
	for _, owner := range m.GetOwnerReferences() {
		o.Owners = append(o.Owners, string(owner.UID))
	}
	return o, nil
}

// decode reads a stored value into an object. What cannot be read is an internal error that is also one of class
// "corrupt object", which lets the handlers delete it when they are asked to.
func (s *Storage) decode(key string, value []byte, version uint64, into runtime.Object) error {
	// Decoding protobuf adds to what is in the object.
	if err := runtime.SetZeroValue(into); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	_, err := s.decodeNew(key, value, version, into)
	return err
}

// decodeNew is decode for callers that take whatever object the codec returns.
func (s *Storage) decodeNew(key string, value []byte, version uint64, into runtime.Object) (runtime.Object, error) {
	obj, _, err := s.codec.Decode(value, nil, into)
	if err == nil {
		err = s.versioner.UpdateObject(obj, version)
	}
	if err != nil {
		return nil, storage.NewInternalError(fmt.Errorf("unable to transform key \"/%s\": %w", key,
			storage.NewCorruptObjError(key, err)))
	}
	return obj, nil
}

func newLike(v reflect.Value) runtime.Object {
	return reflect.New(v.Type()).Interface().(runtime.Object)
}
