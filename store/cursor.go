package store

import (
	"context"
	"strings"
	"sync"
)

const (
	// One reading of the log looks at this many changes and returns this many bytes at most, so that a reader neither
	// holds a snapshot for long nor takes memory that grows with how far it is behind.
	maxScan      = 8192
	maxScanBytes = 1 << 20
)

// Cursor follows the changes of the objects whose key begins with a prefix, and perhaps of one more (Also). It holds a position, not changes: a slow
// reader costs nothing, and a reader that knows its position continues there after the store was reopened. A
// cursor serves one goroutine.
type Cursor struct {
	store  *Store
	prefix string
	also   string // empty: none

	// pageBytes is for how many bytes of changes one reading is enough.
	pageBytes int
	// hold is asked before a change of more bytes than that is read, which then is the only one; nil: nobody is.
	hold func(bytes int) error

	mu sync.Mutex
	at uint64
}

// Cursor returns a cursor that begins after a version.
func (s *Store) Cursor(after uint64, prefix string) *Cursor {
	return &Cursor{store: s, prefix: prefix, at: after, pageBytes: maxScanBytes}
}

// Also makes a cursor follow one more object too, in the order in which everything was written. None has an empty key.
func (c *Cursor) Also(key string) *Cursor {
	c.also = key
	return c
}

// Sparing makes a cursor return no more than that many bytes of changes at once. A single change that has more is read alone,
// and only after hold was called with its size; when that fails, so does Next. Such cursors read a few at a time: a change wakes
// thousands, and whoever else uses the database would wait for all of them, one lock after the other.
func (c *Cursor) Sparing(bytes int, hold func(bytes int) error) *Cursor {
	c.pageBytes, c.hold = bytes, hold
	return c
}

// At returns the version up to which the cursor has seen everything. It moves also while Next waits.
func (c *Cursor) At() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// Next returns the next changes, at most max (which is positive), and the position reached; it waits until there are
// some. The changes belong to the caller. It fails with ErrCompacted when what comes next has been cut, and with
// ErrClosed.
func (c *Cursor) Next(ctx context.Context, max int) ([]Change, uint64, error) {
	held := 0
	for {
		changes, large, seen, err := c.read(max, held)
		if err != nil || len(changes) > 0 {
			return changes, c.At(), err
		}
		if large > 0 {
			if err := c.hold(large); err != nil {
				return nil, c.At(), err
			}
			held = large
			continue
		}
		if c.At() < seen {
			if err := ctx.Err(); err != nil {
				return nil, c.At(), err
			}
			continue
		}
		if err := c.store.waiting.wait(ctx, c); err != nil {
			return nil, c.At(), err
		}
	}
}

// read returns the changes that one reading of the log finds, and the last version that the log had. When the next change is
// larger than what is held for it, it returns no changes, and the size of that.
func (c *Cursor) read(max, held int) (changes []Change, large int, last uint64, err error) {
	at := c.At()
	if c.hold != nil {
		c.store.turns <- struct{}{}
		defer func() { <-c.store.turns }()
	}
	err = c.store.View(func(s *Snapshot) error {
		last = s.Version()
		scanned, bytes := 0, 0
		return s.log(at, func(r record) bool {
			if hasPrefix(r.key, c.prefix) || c.also != "" && string(r.key) == c.also {
				if len(changes) >= max {
					return false
				}
				ch := s.change(r.version)
				size := ch.Bytes()
				if c.hold != nil && bytes+size > c.pageBytes {
					if len(changes) > 0 {
						return false
					}
					if size > held {
						large = size
						return false
					}
				}
				changes = append(changes, ch.clone())
				bytes += size
			}
			at = r.version
			scanned++
			return scanned < maxScan && bytes < c.pageBytes
		})
	})
	if err != nil {
		return nil, 0, last, err
	}
	c.mu.Lock()
	c.at = at
	c.mu.Unlock()
	return changes, large, last, nil
}

func (c Change) clone() Change {
	if c.Previous != nil {
		before := c.Previous.clone()
		c.Previous = &before
	}
	if c.Deleted {
		c.Object = *c.Previous
	} else {
		c.Object = c.Object.clone()
	}
	return c
}

// Bytes is how much the states of the object take together that the change has.
func (c *Change) Bytes() int {
	n := len(c.Object.Value)
	if c.Previous != nil && !c.Deleted {
		n += len(c.Previous.Value)
	}
	return n
}

// waiting are the cursors that have seen everything. A commit wakes those that it concerns and moves the others along,
// so that a reader of something that never changes neither works nor falls behind the horizon.
type waiting struct {
	mu      sync.Mutex
	closed  bool
	version uint64
	cursors map[*Cursor]chan struct{}
}

func (w *waiting) wait(ctx context.Context, c *Cursor) error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return ErrClosed
	}
	if w.version > c.At() {
		w.mu.Unlock()
		return nil
	}
	woken := make(chan struct{})
	if w.cursors == nil {
		w.cursors = map[*Cursor]chan struct{}{}
	}
	w.cursors[c] = woken
	w.mu.Unlock()
	select {
	case <-woken:
		return nil
	case <-ctx.Done():
		w.mu.Lock()
		delete(w.cursors, c)
		w.mu.Unlock()
		return ctx.Err()
	}
}

// advance announces that the log has grown up to version by changes of keys.
func (w *waiting) advance(version uint64, keys []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version = version
	for c, woken := range w.cursors {
		if c.concerns(keys) {
			delete(w.cursors, c)
			close(woken)
			continue
		}
		c.mu.Lock()
		c.at = max(c.at, version)
		c.mu.Unlock()
	}
}

func (c *Cursor) concerns(keys []string) bool {
	for _, key := range keys {
		if strings.HasPrefix(key, c.prefix) || c.also != "" && key == c.also {
			return true
		}
	}
	return false
}

func (w *waiting) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for c, woken := range w.cursors {
		delete(w.cursors, c)
		close(woken)
	}
}
