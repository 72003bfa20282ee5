package storage

import (
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// StorageClasses returns all storage classes.
func StorageClasses(s *store.Snapshot) ([]*storagev1.StorageClass, error) {
	return every[storagev1.StorageClass](s, "storageclasses."+storagev1.GroupName)
}

// every decodes all objects of a resource.
func every[T any, P interface {
	*T
	runtime.Object
}](s *store.Snapshot, resource string) (all []*T, err error) {
	s.Range(resource+"/", "", func(o store.Object) bool {
		obj := new(T)
		if err = scheme.Decode(o.Value, P(obj)); err != nil {
			err = fmt.Errorf("%s: %w", o.Key, err)
			return false
		}
		all = append(all, obj)
		return true
	})
	return all, err
}
