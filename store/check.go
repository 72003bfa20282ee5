package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// maxFindings bounds what Check reports of a file that is thoroughly broken.
const maxFindings = 100

// Check reads the whole database and returns everything that is wrong with it, joined, as errors of class ErrCorrupt: in
// the file's pages, and in how index, owners, values and history agree. Writers wait until it is done.
func (s *Store) Check() error {
	s.upkeep.RLock()
	defer s.upkeep.RUnlock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.bolt == nil {
		return ErrClosed
	}
	// A writing transaction that writes nothing keeps the writer out: bolt's check must not run beside it.
	tx, err := s.bolt.Begin(true)
	if err != nil {
		return fmt.Errorf("check %s: %w", s.path, classify(err))
	}
	defer func() { _ = tx.Rollback() }()
	var f findings
	for err := range tx.Check() {
		f.add("%w", err)
	}
	f.checkRecords(tx)
	if len(f.errs) > 0 {
		return fmt.Errorf("check %s: %w", s.path, errors.Join(f.errs...))
	}
	return nil
}

type findings struct{ errs []error }

func (f *findings) add(format string, args ...any) {
	if len(f.errs) < maxFindings {
		f.errs = append(f.errs, fmt.Errorf("%w: %w", ErrCorrupt, fmt.Errorf(format, args...)))
	}
}

func (f *findings) checkRecords(tx *bolt.Tx) {
	var err error
	defer func() {
		if err != nil {
			f.add("%w", err)
		}
	}()
	defer recoverCorruption(&err)
	s := newSnapshot(tx)
	state := readState(s.meta)
	if state.horizon > state.version {
		f.add("horizon %d is above the last version %d", state.horizon, state.version)
	}
	superseded := f.checkLog(s, state)
	f.checkIndex(s, superseded)
}

// checkLog reads every record and returns the versions that the history has superseded.
func (f *findings) checkLog(s *Snapshot, state state) map[uint64]bool {
	superseded := map[uint64]bool{}
	var history uint64
	next := state.horizon + 1
	err := s.values.ForEach(func(k, v []byte) error {
		if len(k) != 8 {
			f.add("a version has %d bytes", len(k))
			return nil
		}
		version := binary.BigEndian.Uint64(k)
		r, err := decode(version, v)
		if err != nil {
			f.add("%w", err)
			return nil
		}
		if version <= state.horizon {
			if r.deleted {
				f.add("version %d: a deletion below the horizon %d", version, state.horizon)
			}
			return nil
		}
		for ; next < version; next++ {
			f.add("version %d is missing", next)
		}
		next++
		if r.previous != 0 {
			before := s.values.Get(versionKey(r.previous))
			head, _, err := decodeHead(r.previous, before)
			if err != nil || !bytes.Equal(head.key, r.key) || head.deleted {
				f.add("version %d: its previous version %d is not one of %q", version, r.previous, r.key)
			}
			superseded[r.previous] = true
			history += uint64(len(before))
		}
		if r.deleted {
			superseded[version] = true
			history += uint64(len(v))
			if r.previous == 0 {
				f.add("version %d: a deletion of nothing", version)
			}
		}
		return nil
	})
	if err != nil {
		f.add("%w", err)
	}
	if next != state.version+1 {
		f.add("log ends at version %d, last is %d", next-1, state.version)
	}
	if history != state.history {
		f.add("history has %d bytes, recorded are %d", history, state.history)
	}
	return superseded
}

// checkIndex compares index and owners with the records, which are live or superseded and nothing else.
func (f *findings) checkIndex(s *Snapshot, superseded map[uint64]bool) {
	live, owned, expiring := 0, 0, 0
	err := s.index.ForEach(func(k, v []byte) error {
		if len(v) != 8 {
			f.add("%q: index has %d bytes", k, len(v))
			return nil
		}
		version := binary.BigEndian.Uint64(v)
		r, err := decode(version, s.values.Get(v))
		if err != nil || r.deleted || !bytes.Equal(r.key, k) || superseded[version] {
			f.add("%q: index points to version %d, which is not its live one", k, version)
			return nil
		}
		live++
		if r.expires > 0 {
			expiring++
			if s.expiry.Get(expiryKey(r.expires, string(k))) == nil {
				f.add("%q: not found by its expiry", k)
			}
		}
		seen := map[string]bool{}
		for _, owner := range r.owners {
			if !seen[string(owner)] {
				seen[string(owner)] = true
				owned++
			}
			if s.owners.Get(ownerKey(string(owner), string(k))) == nil {
				f.add("%q: not found by its owner %q", k, owner)
			}
		}
		return nil
	})
	if err != nil {
		f.add("%w", err)
	}
	if n := count(s.owners); n != owned {
		f.add("owners has %d entries, objects name %d", n, owned)
	}
	if n := count(s.expiry); n != expiring {
		f.add("expiry has %d entries, objects name %d", n, expiring)
	}
	if n := count(s.values); n != live+len(superseded) {
		f.add("%d records, of which %d are live and %d superseded", n, live, len(superseded))
	}
}

func count(b *bolt.Bucket) int {
	n := 0
	c := b.Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		n++
	}
	return n
}
