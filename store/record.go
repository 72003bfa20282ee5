package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// A record is what is stored of a change:
//
//	checksum  4 bytes, CRC-32C of the version and all that follows
//	operation 1 byte
//	previous  uvarint, version that this change supersedes; 0 for a creation
//	key, uid  uvarint length and bytes, each
//	owners    uvarint count, then uvarint length and bytes of each
//	expires   uvarint, seconds since 1970; 0 for never
//	value     the rest
//
// A deletion ends after its key: its last state is the record of the previous version.
type record struct {
	version  uint64
	deleted  bool
	previous uint64
	key, uid []byte
	owners   [][]byte
	expires  int64
	value    []byte
}

const (
	opPut    = 1
	opDelete = 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(version uint64, body []byte) uint32 {
	var v [8]byte
	binary.BigEndian.PutUint64(v[:], version)
	return crc32.Update(crc32.Checksum(v[:], castagnoli), castagnoli, body)
}

func encodePut(version, previous uint64, o *Object) []byte {
	size := 4 + 1 + 5*binary.MaxVarintLen64 + len(o.Key) + len(o.UID) + len(o.Value)
	for _, owner := range o.Owners {
		size += binary.MaxVarintLen32 + len(owner)
	}
	b := append(make([]byte, 4, size), opPut)
	b = binary.AppendUvarint(b, previous)
	b = appendString(b, o.Key)
	b = appendString(b, o.UID)
	b = binary.AppendUvarint(b, uint64(len(o.Owners)))
	for _, owner := range o.Owners {
		b = appendString(b, owner)
	}
	b = binary.AppendUvarint(b, uint64(o.Expires))
	b = append(b, o.Value...)
	binary.BigEndian.PutUint32(b, checksum(version, b[4:]))
	return b
}

func encodeDelete(version, previous uint64, key string) []byte {
	b := append(make([]byte, 4, 4+1+2*binary.MaxVarintLen64+len(key)), opDelete)
	b = binary.AppendUvarint(b, previous)
	b = appendString(b, key)
	binary.BigEndian.PutUint32(b, checksum(version, b[4:]))
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// decodeHead reads operation, previous version and key, and does not look at the checksum: it serves readers that skip
// most of the log. Its slices alias data.
func decodeHead(version uint64, data []byte) (r record, rest []byte, err error) {
	if len(data) < 5 || (data[4] != opPut && data[4] != opDelete) {
		return record{}, nil, fmt.Errorf("version %d: not a record", version)
	}
	r = record{version: version, deleted: data[4] == opDelete}
	rest = data[5:]
	ok := true
	r.previous, rest, ok = takeUvarint(rest, ok)
	r.key, rest, ok = takeBytes(rest, ok)
	if !ok {
		return record{}, nil, fmt.Errorf("version %d: record is cut short", version)
	}
	return r, rest, nil
}

// decode reads and verifies a whole record. Its slices alias data.
func decode(version uint64, data []byte) (record, error) { return decodeWith(version, data, nil) }

// decodeWith is decode, and appends the owners to a slice.
func decodeWith(version uint64, data []byte, owners [][]byte) (record, error) {
	r, rest, err := decodeHead(version, data)
	if err != nil {
		return record{}, err
	}
	if checksum(version, data[4:]) != binary.BigEndian.Uint32(data) {
		return record{}, fmt.Errorf("version %d: checksum does not match", version)
	}
	if r.deleted {
		return r, nil
	}
	ok := true
	var count, expires uint64
	r.uid, rest, ok = takeBytes(rest, ok)
	count, rest, ok = takeUvarint(rest, ok)
	r.owners = owners
	for ; ok && count > 0; count-- {
		var owner []byte
		owner, rest, ok = takeBytes(rest, ok)
		r.owners = append(r.owners, owner)
	}
	expires, rest, ok = takeUvarint(rest, ok)
	if !ok {
		return record{}, fmt.Errorf("version %d: record is cut short", version)
	}
	r.expires, r.value = int64(expires), rest
	return r, nil
}

func takeUvarint(b []byte, ok bool) (uint64, []byte, bool) {
	v, n := binary.Uvarint(b)
	if !ok || n <= 0 {
		return 0, nil, false
	}
	return v, b[n:], true
}

func takeBytes(b []byte, ok bool) ([]byte, []byte, bool) {
	n, b, ok := takeUvarint(b, ok)
	if !ok || n > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:n:n], b[n:], true
}

func (r record) object() Object {
	o := Object{Key: string(r.key), UID: string(r.uid), Version: r.version, Expires: r.expires, Value: r.value}
	for _, owner := range r.owners {
		o.Owners = append(o.Owners, string(owner))
	}
	return o
}
