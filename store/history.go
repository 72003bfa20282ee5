package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"sort"

	bolt "go.etcd.io/bbolt"
)

var keyState = []byte("state")

// state is what the store records of itself with every commit.
type state struct {
	version uint64 // of the last change
	horizon uint64 // changes up to here are cut: what they superseded is gone
	history uint64 // bytes of superseded records and of deletions above the horizon
}

func readState(meta *bolt.Bucket) state {
	b := meta.Get(keyState)
	if len(b) != 24 {
		corrupt("state has %d bytes", len(b))
	}
	return state{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[16:])}
}

func (s state) put(meta *bolt.Bucket) error {
	b := make([]byte, 0, 24)
	for _, v := range []uint64{s.version, s.horizon, s.history} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return meta.Put(keyState, b)
}

// maxCut bounds how many changes one commit cuts, and maxCutScan how many it looks at for that, so that a smaller
// HistoryBytes, or much that is old, does not make the next write slow.
const (
	maxCut     = 2048
	maxCutScan = 8 * maxCut
)

// kept is how large the history may be.
type kept struct {
	bytes    int64
	unseen   int64  // how many more, of what the follower has not seen
	followed uint64 // the version up to which it has
}

// trim moves the horizon forward until the history is not larger than what is kept. It does so in strides, since every cut
// rewrites pages that the commit would not touch otherwise.
func trim(s *Snapshot, k kept) error {
	if readState(s.meta).history <= uint64(k.bytes)+uint64(min(k.bytes/8, 1<<20)) {
		return nil
	}
	return cut(s, func(st state) bool {
		return st.history > uint64(k.bytes) && (st.horizon < k.followed || st.history > uint64(k.bytes)+uint64(k.unseen))
	})
}

// cut moves the horizon forward while more wants it, and at most by maxCut records.
func cut(s *Snapshot, more func(state) bool) error {
	state := readState(s.meta)
	var gone []uint64
	c := s.values.Cursor()
	scanned := 0
	for k, v := c.Seek(versionKey(state.horizon + 1)); k != nil && len(gone) < maxCut && scanned < maxCutScan && more(state); k, v = c.Next() {
		scanned++
		version := binary.BigEndian.Uint64(k)
		r, _, err := decodeHead(version, v)
		if err != nil {
			corrupt("%w", err)
		}
		if r.previous != 0 {
			state.history -= uint64(len(s.values.Get(versionKey(r.previous))))
			gone = append(gone, r.previous)
		}
		if r.deleted {
			state.history -= uint64(len(v))
			gone = append(gone, version)
		}
		state.horizon = version
	}
	for _, version := range gone {
		if err := s.values.Delete(versionKey(version)); err != nil {
			return err
		}
	}
	return state.put(s.meta)
}

// Cut drops the changes up to a version, and what they superseded.
func (s *Store) Cut(ctx context.Context, version uint64) error {
	for {
		done := false
		err := s.Update(ctx, func(tx *Tx) error {
			if version > tx.Version() {
				return fmt.Errorf("cut up to version %d, last is %d: %w", version, tx.Version(), ErrFuture)
			}
			done = tx.Horizon() >= version
			tx.cut = max(tx.cut, version)
			return nil
		})
		if err != nil || done {
			return err
		}
	}
}

// Horizon returns the version up to which changes have been cut: Changes and cursors can begin after it or later.
func (s *Snapshot) Horizon() uint64 { return readState(s.meta).horizon }

// Changes calls fn for the changes after a version, in their order, until fn returns false. It returns ErrCompacted
// when some of them have been cut.
func (s *Snapshot) Changes(after uint64, fn func(Change) bool) error {
	return s.log(after, func(r record) bool { return fn(s.change(r.version)) })
}

// log calls fn with the heads of the records after a version.
func (s *Snapshot) log(after uint64, fn func(record) bool) error {
	if h := s.Horizon(); after < h {
		return fmt.Errorf("changes after version %d, oldest are after %d: %w", after, h, ErrCompacted)
	}
	c := s.values.Cursor()
	for k, v := c.Seek(versionKey(after + 1)); k != nil; k, v = c.Next() {
		r, _, err := decodeHead(binary.BigEndian.Uint64(k), v)
		if err != nil {
			corrupt("%w", err)
		}
		if !fn(r) {
			return nil
		}
	}
	return nil
}

// change reads a change that the log has.
func (s *Snapshot) change(version uint64) Change {
	r := s.record(version)
	c := Change{Version: version, Deleted: r.deleted}
	if r.previous != 0 {
		before := s.record(r.previous).object()
		c.Previous = &before
	}
	if r.deleted {
		c.Object = *c.Previous
	} else {
		c.Object = r.object()
	}
	return c
}

// Past reads the objects under a prefix as they were at a version.
type Past struct {
	s       *Snapshot
	prefix  string
	changed map[string]uint64 // keys changed since -> version that they had; 0 when there was none
	keys    []string          // of changed, in order
}

// At returns the objects whose key begins with prefix as they were at a version. Its cost grows with the changes since
// then. It returns ErrCompacted when some of these have been cut, and ErrFuture when the version does not exist yet.
func (s *Snapshot) At(version uint64, prefix string) (*Past, error) {
	if version > s.version {
		return nil, fmt.Errorf("version %d, last is %d: %w", version, s.version, ErrFuture)
	}
	p := &Past{s: s, prefix: prefix, changed: map[string]uint64{}}
	err := s.log(version, func(r record) bool {
		if hasPrefix(r.key, prefix) {
			if _, ok := p.changed[string(r.key)]; !ok {
				p.changed[string(r.key)] = r.previous
				p.keys = append(p.keys, string(r.key))
			}
		}
		return true
	})
	sort.Strings(p.keys)
	return p, err
}

// Get returns the object at key as it was.
func (p *Past) Get(key string) (Object, bool) {
	if version, ok := p.changed[key]; ok {
		if version == 0 {
			return Object{}, false
		}
		return p.s.record(version).object(), true
	}
	return p.s.Get(key)
}

// Range calls fn for the objects that were there, beginning with from, in the order of their keys, until fn returns
// false. Those whose value is not wanted are left out, at less cost; so are many of those that lack the words.
func (p *Past) Range(from string, wanted Wanted, fn func(Object) bool) {
	summary := p.s.summary
	if len(wanted.Words) == 0 {
		summary = nil
	}
	records := p.s.records()
	var l *learner
	m := p.merge(from, func(key []byte, version uint64) bool {
		r := records.get(version)
		if (wanted.Value == nil || wanted.Value(r.value)) && !fn(r.object()) {
			return false
		}
		if l != nil {
			l.see(key, r.value)
		}
		return true
	})
	for _, sp := range summary.spans(p.s.version, max(p.prefix, from), after(p.prefix), wanted.Words) {
		l = nil
		if sp.learn && len(p.changed) == 0 { // of what has changed it does not read what there is now
			l = summary.learner(p.s.version, sp.from)
		}
		more := p.s.between(sp.from, sp.to, m.next)
		if l != nil && more {
			l.learn(sp.to)
		} else if l != nil {
			l.learn(m.at)
		}
		if !more {
			return
		}
	}
	l = nil
	m.rest()
}

// Count returns how many objects were there, beginning with from. It looks at every key, but at no value.
func (p *Past) Count(from string) int {
	n := 0
	m := p.merge(from, func([]byte, uint64) bool { n++; return true })
	p.s.keys(p.prefix, from, m.next)
	m.rest()
	return n
}

// merging shows the keys of the index, less those that have changed, with those of the changed that had been there.
type merging struct {
	p   *Past
	old []string // the changed keys that are still to come
	fn  func(key []byte, version uint64) bool
	at  string // the key for which fn has returned false
}

func (p *Past) merge(from string, fn func(key []byte, version uint64) bool) *merging {
	return &merging{p: p, old: p.keys[sort.SearchStrings(p.keys, from):], fn: fn}
}

// next shows the changed keys below one of the index, and that one if it has not changed.
func (m *merging) next(key []byte, version uint64) bool {
	for ; len(m.old) > 0 && m.old[0] < string(key); m.old = m.old[1:] {
		if !m.show([]byte(m.old[0]), m.p.changed[m.old[0]]) {
			return false
		}
	}
	if _, ok := m.p.changed[string(key)]; ok {
		return true
	}
	return m.show(key, version)
}

// rest shows the changed keys that are still to come.
func (m *merging) rest() {
	for _, key := range m.old {
		if !m.show([]byte(key), m.p.changed[key]) {
			return
		}
	}
}

func (m *merging) show(key []byte, version uint64) bool {
	if version == 0 || m.fn(key, version) {
		return true
	}
	m.at = string(key)
	return false
}
