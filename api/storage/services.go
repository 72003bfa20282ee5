package storage

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// Services returns the Services of a namespace, or all if that is empty, in the order of their names.
func Services(s *store.Store, namespace string) (services []*corev1.Service, err error) {
	viewed := s.View(func(snapshot *store.Snapshot) error {
		snapshot.Range(store.Key("services", namespace, ""), "", func(o store.Object) bool {
			service := &corev1.Service{}
			if err = scheme.Decode(o.Value, service); err != nil {
				err = fmt.Errorf("%s: %w", o.Key, err)
				return false
			}
			services = append(services, service)
			return true
		})
		return err
	})
	return services, viewed
}
