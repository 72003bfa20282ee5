package store

import (
	"fmt"
	"io"

	bolt "go.etcd.io/bbolt"
)

// Backup writes a copy of the database, as it is now, to w. Reading and writing go on meanwhile; the space that writers
// free is reused only afterwards. A compaction waits for it.
func (s *Store) Backup(w io.Writer) (int64, error) {
	s.upkeep.RLock()
	defer s.upkeep.RUnlock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.bolt == nil {
		return 0, ErrClosed
	}
	var n int64
	err := s.bolt.View(func(tx *bolt.Tx) (err error) {
		n, err = tx.WriteTo(w)
		return err
	})
	if err != nil {
		return n, fmt.Errorf("backup of %s: %w", s.path, classify(err))
	}
	return n, nil
}
