package store

import (
	"encoding/binary"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
)

const (
	// defaultHistoryAge is that of a cluster, whose API server compacts etcd so often.
	defaultHistoryAge = 5 * time.Minute
	// strides are how many marks of time there are in the age of the history: what is superseded is kept longer by one
	// stride, since every cut rewrites pages that the commit would not touch otherwise.
	strides = 10
)

var keyAges = []byte("ages")

// age says which version was the last one at a time, in seconds since 1970.
type age struct {
	at      int64
	version uint64
}

// ages are marks of time, the oldest first: what is written when is known to a stride. They are stored, so that also a
// daemon that is restarted again and again forgets.
type ages []age

func readAges(meta *bolt.Bucket) (a ages) {
	for b := meta.Get(keyAges); len(b) >= 16; b = b[16:] {
		a = append(a, age{int64(binary.BigEndian.Uint64(b)), binary.BigEndian.Uint64(b[8:])})
	}
	return a
}

func (a ages) put(meta *bolt.Bucket) error {
	b := make([]byte, 0, 16*len(a))
	for _, m := range a {
		b = binary.BigEndian.AppendUint64(b, uint64(m.at))
		b = binary.BigEndian.AppendUint64(b, m.version)
	}
	return meta.Put(keyAges, b)
}

// mark returns the marks with one of now, if the last one is older than a stride, and without those that the horizon has
// passed; before is the last version that was there before what is written now. A mark of the future, from before the clock
// was set back, becomes one of now.
func (a ages) mark(now time.Time, st state, before uint64, stride time.Duration) ages {
	var marked ages
	for _, m := range a {
		if m.version > st.horizon {
			marked = append(marked, age{min(m.at, now.Unix()), m.version})
		}
	}
	switch n := len(marked); {
	case st.version <= st.horizon:
	case n == 0:
		marked = append(marked, age{now.Unix(), st.version})
	case now.Unix() >= marked[n-1].at+seconds(stride) && marked[n-1].version < st.version:
		// What came after the last mark was written within a stride, or there would be another mark.
		if before > marked[n-1].version {
			marked = append(marked, age{marked[n-1].at + seconds(stride), before})
		}
		if before < st.version {
			marked = append(marked, age{now.Unix(), st.version})
		}
	}
	return marked
}

// upTo returns the version up to which all was written longer ago than keep; 0 for none.
func (a ages) upTo(now time.Time, keep time.Duration) (version uint64) {
	for _, m := range a {
		if m.at+seconds(keep) <= now.Unix() {
			version = m.version
		}
	}
	return version
}

// due returns when something will have become too old; the zero value if nothing ever does without another write.
func (a ages) due(st state, keep, stride time.Duration) time.Time {
	if st.history == 0 || len(a) == 0 {
		return time.Time{}
	}
	// A stride later than need be: the next write may come before, and then costs no commit of its own.
	return time.Unix(a[0].at+seconds(keep)+seconds(stride), 0)
}

func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// stride returns how far marks of time are apart.
func (o Options) stride() time.Duration { return o.HistoryAge / strides }

// forget cuts what is too old and marks the time; before is the last version that was there before what is written now. It
// returns when there will be more to cut, and whether it has changed anything.
func forget(s *Snapshot, before uint64, o Options) (due time.Time, changed bool, err error) {
	now, stored := time.Now(), readAges(s.meta)
	marked := stored.mark(now, readState(s.meta), before, o.stride())
	if version := marked.upTo(now, o.HistoryAge); version > s.Horizon() {
		changed = true
		if err := cut(s, func(st state) bool { return st.horizon < version }); err != nil {
			return time.Time{}, false, err
		}
	}
	st := readState(s.meta)
	marked = slices.DeleteFunc(marked, func(m age) bool { return m.version <= st.horizon })
	if !slices.Equal(marked, stored) {
		changed = true
		if err := marked.put(s.meta); err != nil {
			return time.Time{}, false, err
		}
	}
	return marked.due(st, o.HistoryAge, o.stride()), changed, nil
}

// alarm is the writer's, and rings when the history has to be cut although nobody writes.
type alarm struct {
	timer *time.Timer
	due   time.Time
}

func (a *alarm) set(due time.Time) {
	switch {
	case due.Equal(a.due):
		return
	case due.IsZero():
		a.timer.Stop()
	default:
		a.timer.Reset(time.Until(due))
	}
	a.due = due
}

// forgetNow cuts the history in a transaction of its own. It is the writer's.
func (s *Store) forgetNow() {
	s.mu.RLock()
	defer s.mu.RUnlock()
	due, err := func() (due time.Time, err error) {
		if s.copying.Load() { // which lacks what is cut before it has it
			return time.Now().Add(s.options.stride()), nil
		}
		btx, err := s.bolt.Begin(true)
		if err != nil {
			return due, err
		}
		defer func() { _ = btx.Rollback() }()
		defer recoverCorruption(&err)
		due, changed, err := forget(newSnapshot(btx), s.version.Load(), s.options)
		if err != nil || !changed {
			return due, err
		}
		return due, btx.Commit()
	}()
	if err != nil {
		s.options.Logger.Warn("cannot cut the history of the database", "path", s.path, "error", classify(err))
		due = time.Now().Add(s.options.HistoryAge)
	}
	s.alarm.due = time.Time{} // it has rung
	s.alarm.set(due)
}
