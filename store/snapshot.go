package store

import (
	"bytes"
	"encoding/binary"

	bolt "go.etcd.io/bbolt"
)

// Buckets of the file.
var (
	bucketMeta   = []byte("meta")   // format, state
	bucketValues = []byte("values") // version, 8 bytes big endian -> record
	bucketIndex  = []byte("index")  // key -> version of the live object
	bucketOwners = []byte("owners") // uvarint length of the owner's UID, UID, key -> nothing
	bucketExpiry = []byte("expiry") // seconds since 1970, 8 bytes big endian, key -> nothing
)

// Snapshot reads what was durable when its transaction began.
type Snapshot struct {
	meta, values, index, owners, expiry *bolt.Bucket
	version                             uint64
	visit                               func(key string) bool // nil: all
	summary                             *summary              // nil: there is none
}

func newSnapshot(tx *bolt.Tx) *Snapshot {
	s := &Snapshot{
		meta: tx.Bucket(bucketMeta), values: tx.Bucket(bucketValues),
		index: tx.Bucket(bucketIndex), owners: tx.Bucket(bucketOwners), expiry: tx.Bucket(bucketExpiry),
	}
	s.version = readState(s.meta).version
	return s
}

// Visited returns the same snapshot, whose Range calls visit before it shows an object, and leaves out those for which that
// returns false.
func (s *Snapshot) Visited(visit func(key string) bool) *Snapshot {
	visited := *s
	visited.visit = visit
	return &visited
}

// Version returns the version of the last change that the snapshot contains.
func (s *Snapshot) Version() uint64 { return s.version }

// Get returns the object at key.
func (s *Snapshot) Get(key string) (Object, bool) {
	version := s.index.Get([]byte(key))
	if version == nil {
		return Object{}, false
	}
	return live(s.record(binary.BigEndian.Uint64(version)), []byte(key)), true
}

// Range calls fn for the objects whose key begins with prefix and is not below from, in the order of their keys, until
// fn returns false.
func (s *Snapshot) Range(prefix, from string, fn func(Object) bool) {
	records := s.records()
	s.keys(prefix, from, func(key []byte, version uint64) bool {
		o := live(records.get(version), key)
		return s.visit != nil && !s.visit(o.Key) || fn(o)
	})
}

// Owned calls fn with the keys of the objects that name uid among their owners, and whose key begins with prefix and is not below
// from, in the order of their keys, until fn returns false. Whoever writes an object names any owner: one of another namespace is none.
func (s *Snapshot) Owned(uid, prefix, from string, fn func(key string) bool) {
	owner, within := len(ownerKey(uid, "")), ownerKey(uid, prefix)
	c := s.owners.Cursor()
	for k, _ := c.Seek(ownerKey(uid, max(prefix, from))); k != nil && bytes.HasPrefix(k, within); k, _ = c.Next() {
		if !fn(string(k[owner:])) {
			return
		}
	}
}

// Expiring calls fn for the objects that expire, the earliest first, until fn returns false.
func (s *Snapshot) Expiring(fn func(Object) bool) {
	c := s.expiry.Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		o, ok := s.Get(string(k[8:]))
		if !ok {
			corrupt("%q expires, but does not exist", k[8:])
		}
		if !fn(o) {
			return
		}
	}
}

// Keys calls fn with the keys of the objects that Range would show. It looks at no value.
func (s *Snapshot) Keys(prefix, from string, fn func(key string) bool) {
	s.keys(prefix, from, func(key []byte, _ uint64) bool { return fn(string(key)) })
}

// Versions calls fn with the keys of the objects that begin with prefix, and with the version of each, in the order of the
// keys, until fn returns false. It looks at no value. The key is good until fn returns.
func (s *Snapshot) Versions(prefix string, fn func(key []byte, version uint64) bool) {
	s.keys(prefix, "", fn)
}

// Count returns how many objects have a key that begins with prefix. It looks at every key, but at no value.
func (s *Snapshot) Count(prefix string) int {
	n := 0
	s.keys(prefix, "", func([]byte, uint64) bool { n++; return true })
	return n
}

func (s *Snapshot) keys(prefix, from string, fn func(key []byte, version uint64) bool) {
	s.between(max(prefix, from), after(prefix), fn)
}

// between calls fn for the keys from one on and before another, which is empty for all, until fn returns false, which it reports.
func (s *Snapshot) between(from, to string, fn func(key []byte, version uint64) bool) bool {
	c := s.index.Cursor()
	for k, v := c.Seek([]byte(from)); k != nil && (to == "" || string(k) < to); k, v = c.Next() {
		if !fn(k, binary.BigEndian.Uint64(v)) {
			return false
		}
	}
	return true
}

// after returns the first key after all that begin with a prefix; empty for none.
func after(prefix string) string {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1})
		}
	}
	return ""
}

// live returns the object of the record that the index has at key.
func live(r record, key []byte) Object {
	if r.deleted || !bytes.Equal(r.key, key) {
		corrupt("%q: index points to version %d, which is another object", key, r.version)
	}
	return r.object()
}

// records reads many records, one after the other, without garbage.
type records struct {
	values *bolt.Cursor
	key    [8]byte
	owners [][]byte
}

func (s *Snapshot) records() *records { return &records{values: s.values.Cursor()} }

// get returns a record, which is good until the next one is read.
func (r *records) get(version uint64) record {
	binary.BigEndian.PutUint64(r.key[:], version)
	k, data := r.values.Seek(r.key[:])
	if !bytes.Equal(k, r.key[:]) {
		corrupt("version %d is missing", version)
	}
	found, err := decodeWith(version, data, r.owners[:0])
	if err != nil {
		corrupt("%w", err)
	}
	r.owners = found.owners
	return found
}

func (s *Snapshot) record(version uint64) record {
	r, _ := s.sizedRecord(version)
	return r
}

// sizedRecord returns a record and its size in bytes.
func (s *Snapshot) sizedRecord(version uint64) (record, int) {
	data := s.values.Get(versionKey(version))
	if data == nil {
		corrupt("version %d is missing", version)
	}
	r, err := decode(version, data)
	if err != nil {
		corrupt("%w", err)
	}
	return r, len(data)
}

func hasPrefix(key []byte, prefix string) bool {
	return len(key) >= len(prefix) && string(key[:len(prefix)]) == prefix
}

func versionKey(version uint64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 0, 8), version)
}

func expiryKey(expires int64, key string) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(key)), uint64(expires)), key...)
}

func ownerKey(uid, key string) []byte {
	b := make([]byte, 0, binary.MaxVarintLen32+len(uid)+len(key))
	return append(appendString(b, uid), key...)
}
