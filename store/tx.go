package store

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/jobd/jobd/internal/watchdog"
)

const (
	maxKeyBytes   = 4096
	maxOwnerBytes = 1024
)

// Tx reads and writes. What it writes is kept aside until its function has succeeded: Get sees it, while Range, Keys,
// Owned, Count and Changes show what was there before the function began (which includes what transactions that share
// the commit wrote before it). So writing while ranging is safe.
type Tx struct {
	*Snapshot
	next    uint64 // version of the next write
	writes  []write
	pending map[string]int // key -> its last write
	cut     uint64         // version up to which the history is to be dropped
	err     error
	watch   *watchdog.Section
	notes   *summary // nil: nobody is told
}

type write struct {
	version uint64
	deleted bool
	object  Object
}

func newTx(s *Snapshot, watch *watchdog.Section, notes *summary) *Tx {
	return &Tx{Snapshot: s, next: s.version + 1, watch: watch, notes: notes}
}

// Get returns the object at key, as this transaction left it.
func (t *Tx) Get(key string) (Object, bool) {
	t.watch.On(key)
	if i, ok := t.pending[key]; ok {
		w := t.writes[i]
		return w.object, !w.deleted
	}
	return t.Snapshot.Get(key)
}

// Visited is Snapshot.Visited. The watchdog is told of each object that is shown, since reading all of them takes its time.
func (t *Tx) Visited(visit func(key string) bool) *Snapshot {
	return t.Snapshot.Visited(func(key string) bool {
		t.watch.On(key)
		return visit(key)
	})
}

// Put creates or replaces the object at o.Key and returns its new version. Every Put is a change of its own, also when
// the transaction puts the same key twice. o.Value must not be changed before the transaction has ended. A key or owner
// that cannot be stored fails the transaction with ErrInvalid.
func (t *Tx) Put(o Object) uint64 {
	if o.Key == "" || len(o.Key) > maxKeyBytes {
		t.fail(fmt.Errorf("%w: key of %d bytes, allowed are 1 to %d", ErrInvalid, len(o.Key), maxKeyBytes))
	}
	for _, owner := range o.Owners {
		if len(owner) > maxOwnerBytes {
			t.fail(fmt.Errorf("%w: %s: owner's UID of %d bytes, allowed are %d", ErrInvalid, o.Key, len(owner),
				maxOwnerBytes))
		}
	}
	o.Version, o.Expires = t.next, max(o.Expires, 0)
	return t.add(write{object: o})
}

// Delete removes the object at key and returns the deletion's version, and whether there was one.
func (t *Tx) Delete(key string) (uint64, bool) {
	if _, ok := t.Get(key); !ok {
		return 0, false
	}
	return t.add(write{deleted: true, object: Object{Key: key}}), true
}

func (t *Tx) add(w write) uint64 {
	t.watch.On(w.object.Key)
	w.version = t.next
	t.next++
	if t.pending == nil {
		t.pending = map[string]int{}
	}
	t.pending[w.object.Key] = len(t.writes)
	t.writes = append(t.writes, w)
	return w.version
}

// Err returns why the transaction cannot be committed any more, nil if it can.
func (t *Tx) Err() error { return t.err }

func (t *Tx) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

// apply moves the writes into the transaction of bolt and returns how many bytes they are.
func (t *Tx) apply() (written int, err error) {
	state := readState(t.meta)
	for i := range t.writes {
		n, err := t.applyOne(&t.writes[i], &state)
		if err != nil {
			return 0, err
		}
		written += n
	}
	state.version = t.next - 1
	return written, state.put(t.meta)
}

func (t *Tx) applyOne(w *write, state *state) (int, error) {
	key := []byte(w.object.Key)
	var previous uint64
	var before record
	if v := t.index.Get(key); v != nil {
		var size int
		previous = binary.BigEndian.Uint64(v)
		before, size = t.sizedRecord(previous)
		state.history += uint64(size)
	}
	if err := t.applyReferences(w, before); err != nil {
		return 0, err
	}
	t.notes.note(w, previous == 0)
	var data []byte
	var err error
	if w.deleted {
		data = encodeDelete(w.version, previous, w.object.Key)
		state.history += uint64(len(data))
		err = t.index.Delete(key)
	} else {
		data = encodePut(w.version, previous, &w.object)
		err = t.index.Put(key, versionKey(w.version))
	}
	if err != nil {
		return 0, err
	}
	// Versions only grow, so pages of the log are filled from left to right and never again.
	t.values.FillPercent = 1
	return len(data), t.values.Put(versionKey(w.version), data)
}

// applyReferences updates the indexes by owner and by expiry. Most changes change neither, and then none of their pages
// is written.
func (t *Tx) applyReferences(w *write, before record) error {
	if !slices.EqualFunc(before.owners, w.object.Owners, func(a []byte, b string) bool { return string(a) == b }) {
		for _, owner := range before.owners {
			if err := t.owners.Delete(ownerKey(string(owner), w.object.Key)); err != nil {
				return err
			}
		}
		for _, owner := range w.object.Owners {
			if err := t.owners.Put(ownerKey(owner, w.object.Key), []byte{}); err != nil {
				return err
			}
		}
	}
	if before.expires == w.object.Expires {
		return nil
	}
	if before.expires > 0 {
		if err := t.expiry.Delete(expiryKey(before.expires, w.object.Key)); err != nil {
			return err
		}
	}
	if w.object.Expires > 0 {
		return t.expiry.Put(expiryKey(w.object.Expires, w.object.Key), []byte{})
	}
	return nil
}
