package store

import (
	"errors"
	"fmt"
	"math"
	"os"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// shortHistoryBytes is how much of what was superseded is kept while the disk has no room for the reserve: what is cut is
// written anew, so that the file grows no more.
const shortHistoryBytes = 1 << 20

// reserve is disk space that the file holds beyond what it uses. Only the writer uses it.
type reserve struct {
	upTo  int64 // the file has the disk space up to this offset
	short bool  // the disk is too full for more
}

// history is how much of what was superseded a commit keeps.
func (r *reserve) history(o Options) int64 {
	if r.short {
		return min(o.HistoryBytes, shortHistoryBytes)
	}
	return o.HistoryBytes
}

// keepReserve takes more disk space once half of the reserve has been used up.
func (s *Store) keepReserve() {
	if s.options.Reserve == 0 {
		return
	}
	r := &s.reserved
	used := usedSize(s.bolt)
	if used+s.options.Reserve/2 <= r.upTo {
		return
	}
	err := allocate(s.path, used+s.options.Reserve)
	switch {
	case err == nil:
		r.upTo = used + s.options.Reserve
	case errors.Is(err, unix.EOPNOTSUPP):
		r.upTo = math.MaxInt64
		s.options.Logger.Warn("the file system of the database cannot reserve disk space: when others fill it, "+
			"nothing can be recorded", "path", s.path)
	case !r.short:
		s.options.Logger.Warn("cannot reserve disk space for the database", "path", s.path, "error", err)
	}
	r.short = err != nil && r.upTo != math.MaxInt64
}

// usedSize returns where the part of the file ends that has ever been used.
func usedSize(db *bolt.DB) (size int64) {
	_ = db.View(func(tx *bolt.Tx) error {
		size = tx.Size()
		return nil
	})
	return size
}

// allocate asks the file system to reserve the space of a file up to an offset, and leaves its size as it is.
func allocate(path string, upTo int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, upTo); err != nil {
		return fmt.Errorf("fallocate: %w", err)
	}
	return nil
}
