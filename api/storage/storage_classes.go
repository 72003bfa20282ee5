package storage

import (
	"fmt"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// StorageClasses returns all storage classes.
func StorageClasses(s *store.Snapshot) (classes []*storagev1.StorageClass, err error) {
	s.Range("storageclasses."+storagev1.GroupName+"/", "", func(o store.Object) bool {
		class := &storagev1.StorageClass{}
		if err = scheme.Decode(o.Value, class); err != nil {
			err = fmt.Errorf("%s: %w", o.Key, err)
			return false
		}
		classes = append(classes, class)
		return true
	})
	return classes, err
}
