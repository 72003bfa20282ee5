package store

import (
	"slices"
	"sort"
	"sync"
)

// stretchKeys is of how many keys a stretch is made. With more, a reader would have to read more for each value that it looks for; with
// fewer, the stretches would take more memory.
const stretchKeys = 32

// Words calls add with numbers that stand for what readers look for in a value, and reports whether these are all of them. It must
// say the same of the same value as long as the store is open.
type Words func(value []byte, add func(word uint32)) bool

// Wanted is what a reader looks for. The zero value is everything.
type Wanted struct {
	// Words are what its values have, by Options.Words: one of each group at least.
	Words [][]uint32
	// Value reports whether a value may be wanted; nil: all are.
	Value func(value []byte) bool
}

// summary says of stretches of keys which words the values there have, so that a reader who looks for a word reads no others. It
// is kept in memory, and begins with nothing: readers who look for words add what they have read, and the writer tells it of each
// change before that is durable. So a stretch may have words that it has no more, but never lacks one.
type summary struct {
	words Words

	mu        sync.RWMutex
	stretches []stretch // in the order of their keys and without a gap; that of the first is empty
	// since is the version from which on they lack nothing: an older snapshot may have what is gone.
	since uint64
}

// stretch is the keys up to the next one's.
type stretch struct {
	from    string
	known   bool
	words   []uint32 // in order
	changes int32    // how many more it may have until it is read anew, if it is known
	changed uint64   // the version of its last change, if it is not
}

func newSummary(words Words) *summary {
	if words == nil {
		return nil
	}
	return &summary{words: words, stretches: make([]stretch, 1)}
}

// of returns the index of the stretch that has a key.
func (s *summary) of(key string) int {
	return sort.Search(len(s.stretches), func(i int) bool { return s.stretches[i].from > key }) - 1
}

// end returns the first key after a stretch; empty for none.
func (s *summary) end(i int) string {
	if i+1 < len(s.stretches) {
		return s.stretches[i+1].from
	}
	return ""
}

// note takes in a change that is about to be committed. It does no harm if it is not committed after all.
func (s *summary) note(w *write, created bool) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.of(w.object.Key)
	t, whole := &s.stretches[i], true
	if t.known && !w.deleted {
		before := len(t.words)
		whole = s.words(w.object.Value, t.add)
		created = created || len(t.words) > before
	}
	if t.known && (created || w.deleted) {
		t.changes--
	}
	switch {
	case !t.known:
		t.changed = w.version
	case !whole || t.changes <= 0:
		s.forget(i, w.version)
	}
}

// forget makes a stretch one of which nothing is known, with those beside it of which that is true: so there are not more for each key
// that ever was.
func (s *summary) forget(i int, version uint64) {
	from, to := i, i+1
	if i > 0 && !s.stretches[i-1].known {
		from--
	}
	if to < len(s.stretches) && !s.stretches[to].known {
		to++
	}
	s.stretches = slices.Replace(s.stretches, from, to, stretch{from: s.stretches[from].from, changed: version})
}

func (t *stretch) add(word uint32) {
	if i, ok := slices.BinarySearch(t.words, word); !ok {
		t.words = slices.Insert(t.words, i, word)
	}
}

// may reports whether a value of the stretch may have one word of each group.
func (t *stretch) may(groups [][]uint32) bool {
	if !t.known {
		return true
	}
	for _, words := range groups {
		if !slices.ContainsFunc(words, func(word uint32) bool { _, ok := slices.BinarySearch(t.words, word); return ok }) {
			return false
		}
	}
	return true
}

// span is keys that are read: those before to, or all if that is empty.
type span struct {
	from, to string
	learn    bool // what words they have
}

// spans returns those between two keys that have to be read in a snapshot for what is wanted.
func (s *summary) spans(version uint64, from, to string, groups [][]uint32) []span {
	if s == nil {
		return []span{{from: from, to: to}}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if version < s.since { // another reader has just come by
		return []span{{from: from, to: to}}
	}
	var spans []span
	for i := s.of(from); i < len(s.stretches) && (to == "" || s.stretches[i].from < to); i++ {
		t := &s.stretches[i]
		if !t.may(groups) {
			continue
		}
		next := span{from: max(from, t.from), to: s.end(i), learn: !t.known}
		if next.to == "" || to != "" && to < next.to {
			next.to = to
		}
		if n := len(spans); n > 0 && spans[n-1].to == next.from && !next.learn && !spans[n-1].learn {
			spans[n-1].to = next.to
		} else {
			spans = append(spans, next)
		}
	}
	return spans
}

// learner reads a span for the summary.
type learner struct {
	summary *summary
	version uint64 // of the snapshot
	from    string
	learned []stretch
	keys    int      // of the last one
	words   []uint32 // of these
	add     func(word uint32)
}

func (s *summary) learner(version uint64, from string) *learner {
	l := &learner{summary: s, version: version, from: from}
	l.add = func(word uint32) { l.words = append(l.words, word) }
	return l
}

func (l *learner) see(key, value []byte) {
	if len(l.learned) == 0 || l.keys == stretchKeys {
		from := l.from // the first has the keys before its own, too
		if len(l.learned) > 0 {
			l.end()
			from = string(key)
		}
		l.learned = append(l.learned, stretch{from: from, known: true})
		l.keys = 0
	}
	l.keys++
	t := &l.learned[len(l.learned)-1]
	t.known = t.known && l.summary.words(value, l.add)
}

// end is for when all keys of the last stretch have been seen.
func (l *learner) end() {
	t := &l.learned[len(l.learned)-1]
	slices.Sort(l.words)
	t.words, l.words = slices.Clone(slices.Compact(l.words)), l.words[:0]
	t.changes = int32(l.keys)
}

// learn takes in what a reader has seen in all keys up to one, if these belong to one stretch that nobody knew. Of a stretch that has
// changed meanwhile only the bounds are of use: the next reader then learns those parts of it that have not changed.
func (l *learner) learn(to string) {
	if len(l.learned) > 0 {
		l.end()
	}
	s := l.summary
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.of(l.from)
	t, end := s.stretches[i], s.end(i)
	if t.known || end != "" && (to == "" || to > end) {
		return // another reader was faster
	}
	stale := t.changed > l.version
	if len(l.learned) == 0 {
		if i > 0 && !stale && t.from == l.from && to == end { // there is nothing: that before it ends later
			before := &s.stretches[i-1]
			before.changed = max(before.changed, t.changed)
			s.stretches = slices.Delete(s.stretches, i, i+1)
			s.since = max(s.since, l.version)
		}
		return
	}
	var parts []stretch
	if t.from < l.from {
		parts = append(parts, stretch{from: t.from, changed: t.changed})
	}
	for _, p := range l.learned {
		if stale || !p.known {
			p = stretch{from: p.from, changed: t.changed}
		}
		parts = append(parts, p)
	}
	if to != end {
		parts = append(parts, stretch{from: to, changed: t.changed})
	}
	s.stretches = slices.Replace(s.stretches, i, i+1, parts...)
	s.since = max(s.since, l.version)
}
