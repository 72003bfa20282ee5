package storage

import (
	"context"

	"k8s.io/apiserver/pkg/storage"

	"github.com/jobd/jobd/store"
)

// sampleSize is how many objects are looked at to estimate the size of all.
const sampleSize = 1000

// Stats counts the objects of the resource and estimates their size.
func (s *Storage) Stats(context.Context) (storage.Stats, error) {
	prefix, err := s.key(s.prefix, true)
	if err != nil {
		return storage.Stats{}, err
	}
	var stats storage.Stats
	err = s.store.View(func(sn *store.Snapshot) error {
		stats.ObjectCount = int64(sn.Count(prefix))
		var n, bytes int64
		sn.Range(prefix, "", func(o store.Object) bool {
			n++
			bytes += int64(len(o.Value))
			return n < sampleSize
		})
		if n > 0 {
			stats.EstimatedAverageObjectSizeBytes = bytes / n
		}
		return nil
	})
	return stats, interpret(prefix, err)
}

// EnableResourceSizeEstimation does nothing: sizes are read from the store, not collected while it is used.
func (s *Storage) EnableResourceSizeEstimation(storage.KeysFunc) error { return nil }

// ReadinessCheck reports whether the store can be read.
func (s *Storage) ReadinessCheck() error {
	return interpret(s.prefix, s.store.View(func(*store.Snapshot) error { return nil }))
}

// GetCurrentResourceVersion returns the version of the last change of any object.
func (s *Storage) GetCurrentResourceVersion(context.Context) (uint64, error) {
	return s.store.Version(), nil
}

// CompactRevision returns the version up to which the history has been cut; 0 if it never was.
func (s *Storage) CompactRevision() int64 {
	var horizon uint64
	err := s.store.View(func(sn *store.Snapshot) error { horizon = sn.Horizon(); return nil })
	if err != nil || horizon <= store.FirstVersion {
		return 0
	}
	return int64(horizon)
}

// RequestWatchProgress does nothing: it serves a watch cache, and there is none.
func (s *Storage) RequestWatchProgress(context.Context) error { return nil }
