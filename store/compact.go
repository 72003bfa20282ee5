package store

import (
	"context"
	"errors"
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"
)

// compactTxBytes is how much a compaction copies in one transaction.
const compactTxBytes = 16 << 20

// Compact rewrites the file without its free pages and returns its size before and after. Writers wait until it is done;
// readers wait only while the files are exchanged. The history is kept.
func (s *Store) Compact(ctx context.Context) (before, after int64, err error) {
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	r := &request{done: make(chan error, 1)}
	r.alone = func() error {
		before, after, err = s.compact()
		return err
	}
	if err := s.submit(ctx, r); err != nil {
		return 0, 0, err
	}
	if err := <-r.done; err != nil {
		return before, after, fmt.Errorf("compact %s: %w", s.path, classify(err))
	}
	return before, after, nil
}

// compact runs on the writer's goroutine, so nothing is written meanwhile.
func (s *Store) compact() (before, after int64, err error) {
	tmp := s.path + ".compact"
	defer os.Remove(tmp)
	if err := s.copyTo(tmp); err != nil {
		return 0, 0, err
	}
	if before, err = size(s.path); err != nil {
		return 0, 0, err
	}
	if after, err = size(tmp); err != nil {
		return 0, 0, err
	}
	// Opened before it gets its name: once the old file has lost its own, nothing may fail any more.
	db, err := openBolt(tmp, s.options)
	if err != nil {
		return 0, 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.Rename(tmp, s.path); err != nil {
		return 0, 0, errors.Join(err, db.Close())
	}
	old := s.bolt
	s.bolt = db
	s.reserved = reserve{}
	s.options.Logger.Info("compacted the database", "path", s.path, "before", before, "after", after)
	return before, after, errors.Join(old.Close(), s.syncDirectory())
}

func (s *Store) copyTo(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	o := boltOptions(s.options)
	o.NoSync, o.NoGrowSync = true, true // one sync at the end does
	o.InitialMmapSize = 0
	dst, err := bolt.Open(path, 0o600, o)
	if err != nil {
		return err
	}
	err = bolt.Compact(dst, s.bolt, compactTxBytes)
	if err == nil && !s.options.NoSync {
		err = dst.Sync()
	}
	return errors.Join(err, dst.Close())
}

func (s *Store) syncDirectory() error {
	if s.options.NoSync {
		return nil
	}
	return syncDirectory(s.path)
}

func size(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
