package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// The layout of bolt's file, in the byte order of the machine. A page begins with its number (8 bytes), its kind (2), how many
// elements it has (2) and how many pages more it takes (4). An element of a branch is the position of its key (4), its size
// (4) and a page (8); one of a leaf its kind (4), position (4), and the sizes of key (4) and value (4). A bucket is the value of
// an element of that kind, which begins with its first page (8).
const (
	pageHead    = 16
	elementSize = 16

	pageBranch = 1
	pageLeaf   = 2
	pageFree   = 16

	elementBucket = 1

	metaRoot     = pageHead + 16
	metaFreelist = pageHead + 32
	noFreelist   = ^uint64(0)

	// maxDepth is more than any tree has: each page of a branch has at least two elements, but for the largest keys.
	maxDepth = 64
)

// checkPages fails unless the pages that a transaction sees are a tree, everything in a page lies in it, and keys are in order.
// Bolt believes what it reads: it would follow a circle without an end, and read what is not there.
func checkPages(path string, tx *bolt.Tx, size int64) error {
	data, unmap, err := mapFile(path, size)
	if err != nil {
		return err
	}
	defer unmap()
	page := int64(tx.DB().Info().PageSize)
	t := pageTree{data: data, size: page, seen: make([]bool, tx.Size()/page)}
	meta := data[int64(tx.ID()%2)*page:]
	if err := t.visit(u64(meta[metaRoot:]), 0, true, keyRange{}); err != nil {
		return err
	}
	if free := u64(meta[metaFreelist:]); free != noFreelist {
		return t.checkFree(free)
	}
	return nil
}

type pageTree struct {
	data []byte
	size int64  // of a page
	seen []bool // by number
}

func u16(b []byte) uint16 { return binary.NativeEndian.Uint16(b) }
func u32(b []byte) uint32 { return binary.NativeEndian.Uint32(b) }
func u64(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }

// take returns a page with those that follow it as its overflow. No page may be taken twice.
func (t *pageTree) take(id uint64) ([]byte, error) {
	if id < 2 || id >= uint64(len(t.seen)) {
		return nil, fmt.Errorf("page %d: there are %d", id, len(t.seen))
	}
	begin := int64(id) * t.size
	end := begin + t.size*(1+int64(u32(t.data[begin+12:])))
	if u64(t.data[begin:]) != id || end > int64(len(t.seen))*t.size {
		return nil, fmt.Errorf("page %d: it says that it is another one, or larger than the file", id)
	}
	for i := id; i < uint64(end/t.size); i++ {
		if t.seen[i] {
			return nil, fmt.Errorf("page %d: it is used twice", i)
		}
		t.seen[i] = true
	}
	return t.data[begin:end], nil
}

// keyRange is where the keys of a page belong: from least on, and below the other one; nil for no bound.
type keyRange struct{ least, below []byte }

// checkOrder fails unless a key comes after the one before it in its page, nil for none, and belongs there.
func (k keyRange) checkOrder(before, key []byte) error {
	if before != nil && bytes.Compare(before, key) >= 0 || bytes.Compare(key, k.least) < 0 ||
		k.below != nil && bytes.Compare(key, k.below) >= 0 {
		return errors.New("its keys are not in order")
	}
	return nil
}

// visit checks a page and those below it.
func (t *pageTree) visit(id uint64, depth int, buckets bool, keys keyRange) error {
	p, err := t.take(id)
	if err != nil {
		return err
	}
	if depth > maxDepth {
		return fmt.Errorf("page %d: it is more than %d levels deep", id, maxDepth)
	}
	kind, count := u16(p[8:]), int(u16(p[10:]))
	switch {
	case kind != pageBranch && kind != pageLeaf, kind == pageBranch && count == 0, pageHead+count*elementSize > len(p):
		return fmt.Errorf("page %d: a page of kind %d with %d elements", id, kind, count)
	case kind == pageBranch:
		err = t.branch(p, count, depth, buckets, keys)
	default:
		err = t.leaf(p, count, depth, buckets, keys)
	}
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

// branch checks the elements of a branch, and the pages that they lead to.
func (t *pageTree) branch(p []byte, count, depth int, buckets bool, keys keyRange) error {
	key := func(i int) ([]byte, error) {
		at := pageHead + i*elementSize
		begin := int64(at) + int64(u32(p[at:]))
		end := begin + int64(u32(p[at+4:]))
		if end > int64(len(p)) {
			return nil, fmt.Errorf("the key of element %d is not in it", i)
		}
		return p[begin:end], nil
	}
	var before []byte
	for i := range count {
		this, err := key(i)
		if err != nil {
			return err
		}
		if err := keys.checkOrder(before, this); err != nil {
			return err
		}
		below := keys.below
		if i+1 < count {
			if below, err = key(i + 1); err != nil {
				return err
			}
		}
		if err := t.visit(u64(p[pageHead+i*elementSize+8:]), depth+1, buckets, keyRange{this, below}); err != nil {
			return err
		}
		before = this
	}
	return nil
}

// leaf checks the elements of a leaf, and the buckets among them.
func (t *pageTree) leaf(p []byte, count, depth int, buckets bool, keys keyRange) error {
	var before []byte
	for i := range count {
		at := pageHead + i*elementSize
		e := p[at:]
		key := int64(at) + int64(u32(e[4:]))
		value := key + int64(u32(e[8:]))
		end := value + int64(u32(e[12:]))
		if end > int64(len(p)) {
			return fmt.Errorf("element %d is not in it", i)
		}
		this := p[key:value]
		if err := keys.checkOrder(before, this); err != nil {
			return err
		}
		before = this
		if u32(e) != 0 {
			if err := t.bucket(p[value:end], depth, buckets && u32(e) == elementBucket); err != nil {
				return err
			}
		}
	}
	return nil
}

// bucket checks a bucket, which jobd has at the top only. A small one is inside of the value, as a leaf.
func (t *pageTree) bucket(value []byte, depth int, expected bool) error {
	if !expected || len(value) < 16 {
		return errors.New("it has a bucket where none belongs")
	}
	if root := u64(value); root != 0 {
		return t.visit(root, depth+1, false, keyRange{})
	}
	inline := value[16:]
	if len(inline) < pageHead || u16(inline[8:]) != pageLeaf || u32(inline[12:]) != 0 {
		return errors.New("it has a bucket that is none")
	}
	// An inline bucket is a leaf whose number is 0.
	leaf := pageTree{data: append(make([]byte, 2*len(inline)), inline...), size: int64(len(inline)), seen: make([]bool, 3)}
	binary.NativeEndian.PutUint64(leaf.data[2*len(inline):], 2)
	return leaf.visit(2, depth+1, false, keyRange{})
}

// checkFree checks the list of free pages, which jobd does not write: bolt would write over what it names.
func (t *pageTree) checkFree(id uint64) error {
	p, err := t.take(id)
	if err != nil {
		return err
	}
	count, list := uint64(u16(p[10:])), p[pageHead:]
	if count == 0xffff && len(list) >= 8 {
		count, list = u64(list), list[8:]
	}
	if u16(p[8:]) != pageFree || count > uint64(len(list)/8) {
		return fmt.Errorf("page %d: it has no list of free pages", id)
	}
	for i := range count {
		free := u64(list[8*i:])
		if free < 2 || free >= uint64(len(t.seen)) || t.seen[free] {
			return fmt.Errorf("page %d: it is said to be free", free)
		}
		t.seen[free] = true
	}
	return nil
}
