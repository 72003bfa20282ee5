package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"github.com/jobd/jobd/internal/files"
)

const (
	// compactTxBytes is how much a compaction copies in one transaction.
	compactTxBytes = 16 << 20
	// chases are how often a compaction copies what was written while it copied, before it stops the writers for the rest.
	chases = 3
)

// Compact rewrites the file without its free pages and returns its size before and after. Readers and writers go on
// meanwhile, and wait only while the last changes are copied and the files are exchanged. The history is kept, and not cut
// before the end. When ctx or the store ends before that, nothing has changed.
func (s *Store) Compact(ctx context.Context) (before, after int64, err error) {
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	if err = ctx.Err(); err != nil { // it may have waited for long
		return 0, 0, context.Cause(ctx)
	}
	if before, after, err = s.compact(ctx); err != nil {
		return before, after, fmt.Errorf("compact %s: %w", s.path, classify(err))
	}
	return before, after, nil
}

func (s *Store) compact(ctx context.Context) (before, after int64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-s.closing:
			cancel(ErrClosed)
		case <-ctx.Done():
		}
	}()
	s.copying.Store(true)
	defer s.copying.Store(false)
	dst, err := s.copy(ctx)
	defer func() { err = errors.Join(err, s.discard(dst)) }() // unless it has become the store's file
	for range chases {
		if err == nil {
			err = s.catchUp(ctx, dst)
		}
	}
	if err == nil {
		err = s.flush(dst) // while others write
	}
	if err != nil && !errors.Is(err, ErrCompacted) {
		return 0, 0, err
	}
	r := &request{done: make(chan error, 1)}
	r.alone = func() error {
		if err == nil {
			err = s.catchUp(ctx, dst)
		}
		if errors.Is(err, ErrCompacted) { // somebody has cut the history, so what the copy lacks is not known
			if err = s.discard(dst); err == nil {
				dst, err = s.copy(ctx)
			}
		}
		if err != nil {
			return err
		}
		var old *bolt.DB
		if before, after, old, err = s.exchange(dst); old == nil {
			return err
		}
		dst = nil
		// Now, since only then its space is free: the writer takes the reserve next.
		return errors.Join(err, old.Close())
	}
	if err := s.submit(ctx, s.requests, r); err != nil {
		if ctx.Err() != nil {
			return 0, 0, context.Cause(ctx)
		}
		return 0, 0, err
	}
	err = <-r.done
	return before, after, err
}

// copy copies what is durable into a new file, which is not yet flushed to the disk.
func (s *Store) copy(ctx context.Context) (*bolt.DB, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.bolt == nil {
		return nil, ErrClosed
	}
	if err := s.removeCopy(); err != nil { // bolt would take it up
		return nil, err
	}
	o := boltOptions(s.options)
	o.NoSync, o.NoGrowSync, o.OpenFile = true, true, openInPlace
	dst, err := bolt.Open(s.compactPath(), 0o600, o)
	if err != nil {
		return nil, errors.Join(err, s.removeCopy())
	}
	if err := s.bolt.View(func(src *bolt.Tx) error { return s.copyBuckets(ctx, dst, src) }); err != nil {
		return nil, errors.Join(err, s.discard(dst))
	}
	return dst, nil
}

// copyBuckets copies what src shows into an empty file. bolt.Compact would commit the last of it after it has let go of what
// it reads, when writers may have overwritten that.
func (s *Store) copyBuckets(ctx context.Context, dst *bolt.DB, src *bolt.Tx) error {
	tx, err := dst.Begin(true)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	size := 0
	err = src.ForEach(func(name []byte, from *bolt.Bucket) error {
		to, err := tx.CreateBucket(name)
		if err != nil {
			return err
		}
		return from.ForEach(func(k, v []byte) error {
			if size += len(k) + len(v); size > compactTxBytes {
				size = 0
				if err := tx.Commit(); err != nil {
					return err
				}
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if err := s.flush(dst); err != nil {
					return err
				}
				if tx, err = dst.Begin(true); err != nil {
					return err
				}
				to = tx.Bucket(name)
			}
			to.FillPercent = 0.9 // the keys are in order; later ones come between them
			return to.Put(k, v)
		})
	})
	if err != nil {
		return err
	}
	return tx.Commit()
}

// flush flushes a copy to the disk. That is done after every few pages: otherwise the commits of others would wait until
// the file system has written all of it.
func (s *Store) flush(dst *bolt.DB) error {
	if s.options.NoSync {
		return nil
	}
	return dst.Sync()
}

// compactPath is where a compaction writes its copy.
func (s *Store) compactPath() string { return s.path + ".compact" }

// discard removes a copy, if there is one. It does not touch a file that another process may have begun since the store was
// closed.
func (s *Store) discard(dst *bolt.DB) error {
	if dst == nil {
		return nil
	}
	return errors.Join(s.removeCopy(), dst.Close())
}

func (s *Store) removeCopy() error {
	if err := os.Remove(s.compactPath()); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// catchUp writes to a copy what has been written since it was made. The error is ErrCompacted when some of that has been
// cut from the history.
func (s *Store) catchUp(ctx context.Context, dst *bolt.DB) error {
	return s.View(func(src *Snapshot) error {
		for behind := true; behind; {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			err := dst.Update(func(btx *bolt.Tx) (err error) {
				defer recoverCorruption(&err)
				tx := newTx(newSnapshot(btx), nil, nil)
				if behind, err = tx.follow(src); err != nil {
					return err
				}
				if _, err = tx.apply(); err != nil || behind {
					return err
				}
				horizon := src.Horizon()
				for err == nil && tx.Horizon() < horizon {
					err = cut(tx.Snapshot, func(st state) bool { return st.horizon < horizon })
				}
				if err == nil {
					err = readAges(src.meta).put(tx.meta)
				}
				if err == nil && readState(tx.meta) != readState(src.meta) {
					err = fmt.Errorf("the copy is at %+v, and should be at %+v", readState(tx.meta), readState(src.meta))
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// follow adds the writes that a later state of the database has, and reports whether they are so many that this is not yet
// all of them.
func (t *Tx) follow(later *Snapshot) (behind bool, err error) {
	size := 0
	err = later.log(t.version, func(head record) bool {
		if size > compactTxBytes {
			behind = true
			return false
		}
		r, n := later.sizedRecord(head.version)
		if v := t.add(write{deleted: r.deleted, object: r.object()}); v != r.version {
			corrupt("version %d is missing", v)
		}
		size += n
		return true
	})
	return behind, err
}

// exchange replaces the store's file with a copy of it, and returns the old file, or nil when the copy has not taken its
// place. It runs on the writer's goroutine, so nothing is written meanwhile.
func (s *Store) exchange(dst *bolt.DB) (before, after int64, old *bolt.DB, err error) {
	if err := s.flush(dst); err != nil {
		return 0, 0, nil, err
	}
	dst.NoSync, dst.NoGrowSync = s.options.NoSync, s.options.NoSync
	copied := s.compactPath()
	if before, err = size(s.path); err != nil {
		return 0, 0, nil, err
	}
	if after, err = size(copied); err != nil {
		return 0, 0, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.Rename(copied, s.path); err != nil {
		return 0, 0, nil, err
	}
	old, s.bolt = s.bolt, dst
	s.reserved = reserve{}
	s.options.Logger.Info("compacted the database", "path", s.path, "before", before, "after", after)
	if err := s.syncDirectory(); err != nil {
		// What is written from here on is in the new file, and a power failure may bring back the old one.
		return before, after, old, fmt.Errorf("the file is exchanged, but its name may not last: %w", err)
	}
	return before, after, old, nil
}

// keep is what a commit keeps of what was superseded, when the follower has seen everything up to a version: all that a copy may
// still lack, as long as the disk has room for it.
func (s *Store) keep(followed uint64) kept {
	if s.copying.Load() && !s.reserved.short {
		return kept{bytes: math.MaxInt64}
	}
	k := s.reserved.history(s.options)
	if k.followed = followed; followed == 0 {
		k.unseen = 0 // nobody follows
	}
	return k
}

func (s *Store) syncDirectory() error {
	if s.options.NoSync {
		return nil
	}
	return files.SyncDirectory(filepath.Dir(s.path))
}

func size(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
