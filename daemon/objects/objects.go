// Package objects has what the daemon's packages share to name, read and classify the API objects in the store.
//
// Bytes of the store come in, API objects and answers about them go out. It holds no state and writes nothing.
package objects

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// Object is what all API types that are stored have in common.
type Object interface {
	runtime.Object
	metav1.Object
}

// Key returns the key in the store of an object of a resource.
func Key(resource string, obj metav1.Object) string {
	return store.Key(resource, obj.GetNamespace(), obj.GetName())
}

// Decode decodes a stored object. Its resourceVersion is not filled in.
func Decode(stored store.Object, into runtime.Object) error {
	if err := scheme.Decode(stored.Value, into); err != nil {
		return fmt.Errorf("%s: %w", stored.Key, err)
	}
	return nil
}

// Getter is what objects are read from: a snapshot of the store, or a transaction.
type Getter interface {
	Get(key string) (store.Object, bool)
}

// Read decodes the object at a key, and reports whether there is one.
func Read(from Getter, key string, into runtime.Object) (bool, error) {
	stored, ok := from.Get(key)
	if !ok {
		return false, nil
	}
	return true, Decode(stored, into)
}

// Each decodes all objects of a resource, or with "RESOURCE/NAMESPACE" those of a namespace, in the order of their keys, up to
// the first error.
func Each[T any, P interface {
	*T
	runtime.Object
}](s *store.Snapshot, resource string, fn func(key string, obj P) error) (err error) {
	s.Range(resource+"/", "", func(o store.Object) bool {
		obj := P(new(T))
		if err = Decode(o, obj); err == nil {
			err = fn(o.Key, obj)
		}
		return err == nil
	})
	return err
}
