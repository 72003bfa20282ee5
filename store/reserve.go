package store

import (
	"errors"
	"math"
	"os"

	bolt "go.etcd.io/bbolt"
)

// shortHistoryBytes is how much of what was superseded is kept while the disk has no room for the reserve: what is cut is
// written anew, so that the file grows no more.
const shortHistoryBytes = 1 << 20

// aheadBytes is how much the file is written in advance where it grows. A file system records when a page is written for
// the first time, also in space that it has reserved; with a journal this takes longer than all else in a small commit. So it
// is done for many pages at once: for twice as many each time, up to mostAheadBytes, or where much is written every commit would do it.
const (
	aheadBytes     = 256 << 10
	mostAheadBytes = 4 << 20
)

// reserve is disk space that the file holds beyond what it uses. Only the writer uses it.
type reserve struct {
	upTo  int64 // the file has the disk space up to this offset
	ahead int64 // it is written up to this one
	last  int64 // how much was written in advance the last time
	short bool  // the disk is too full for more
	// file is the file that was written in advance first, nil before that.
	file os.FileInfo
}

// history is how much of what was superseded a commit keeps.
func (r *reserve) history(o Options) kept {
	if r.short {
		return kept{bytes: min(o.HistoryBytes, shortHistoryBytes), unseen: min(o.HistoryBytes, o.Reserve/2)}
	}
	return kept{bytes: o.HistoryBytes, unseen: o.HistoryBytes}
}

// keepReserve makes the file ready for what comes next.
func (s *Store) keepReserve() {
	if s.options.Reserve == 0 {
		return
	}
	used := usedSize(s.bolt)
	if used == 0 { // it cannot be read
		return
	}
	s.takeReserve(used)
	s.writeAhead(used)
}

// takeReserve takes more disk space once half of the reserve has been used up.
func (s *Store) takeReserve(used int64) {
	r := &s.reserved
	if used+s.options.Reserve/2 <= r.upTo {
		return
	}
	err := allocate(s.path, used+s.options.Reserve)
	switch {
	case err == nil:
		if r.upTo == 0 && copiesOnWrite(s.path) {
			s.options.Logger.Warn("Btrfs copies what is written to the database, so that no disk space is reserved for it: "+
				"when others fill the disk, nothing can be recorded; jobd db compact makes it a file that is written in place", "path", s.path)
		}
		r.upTo = used + s.options.Reserve
	case errors.Is(err, errors.ErrUnsupported):
		r.upTo = math.MaxInt64
		s.options.Logger.Warn("the file system of the database cannot reserve disk space: when others fill it, "+
			"nothing can be recorded", "path", s.path)
	case !r.short:
		s.options.Logger.Warn("cannot reserve disk space for the database", "path", s.path, "error", err)
	}
	r.short = err != nil && r.upTo != math.MaxInt64
}

// writeAhead writes zeros into the reserve behind what is used, once half of those have been used up. If that fails, only
// commits take longer.
func (s *Store) writeAhead(used int64) {
	r := &s.reserved
	if s.options.NoSync || r.upTo == math.MaxInt64 || used+r.last/2 < r.ahead {
		return
	}
	f, err := os.OpenFile(s.path, os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return
	}
	if r.file == nil {
		r.file = info
	} else if !os.SameFile(r.file, info) {
		return // somebody has put another one in its place, such as a backup
	}
	most := min(max(2*r.last, aheadBytes), mostAheadBytes)
	to := min(used+most, r.upTo, info.Size()) // bolt decides about the size
	zeros := make([]byte, aheadBytes)
	for from := max(used, r.ahead); from < to; from += aheadBytes {
		if _, err := f.WriteAt(zeros[:min(aheadBytes, to-from)], from); err != nil {
			return
		}
		r.ahead, r.last = min(from+aheadBytes, to), most
	}
}

// usedSize returns where the part of the file ends that has ever been used.
func usedSize(db *bolt.DB) (size int64) {
	_ = db.View(func(tx *bolt.Tx) error {
		size = tx.Size()
		return nil
	})
	return size
}
