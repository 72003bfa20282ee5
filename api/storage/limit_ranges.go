package storage

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// LimitRanges returns the LimitRanges of a namespace, by name.
func LimitRanges(s *store.Snapshot, namespace string) (ranges []*corev1.LimitRange, err error) {
	s.Range(store.Key("limitranges", namespace, ""), "", func(o store.Object) bool {
		lr := &corev1.LimitRange{}
		if err = scheme.Decode(o.Value, lr); err != nil {
			err = fmt.Errorf("%s: %w", o.Key, err)
			return false
		}
		ranges = append(ranges, lr)
		return true
	})
	return ranges, err
}
