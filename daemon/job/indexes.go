package job

import (
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/jobd/jobd/api/indexes"
)

const chunkBits = 256

// chunk holds the indexes of one aligned stretch of chunkBits indexes.
type chunk struct {
	words [chunkBits / 64]uint64
	n     int
}

func (c *chunk) has(b uint) bool { return c.words[b/64]&(1<<(b%64)) != 0 }

// first returns the first bit at or above b that is set or, with flip ^0, that is not; chunkBits for none.
func (c *chunk) first(b uint, flip uint64) uint {
	for b < chunkBits {
		if left := (c.words[b/64] ^ flip) >> (b % 64); left != 0 {
			return b + uint(bits.TrailingZeros64(left))
		}
		b = (b/64 + 1) * 64
	}
	return chunkBits
}

// stretch is one chunk in which some indexes are set, or a row of chunks in which all are.
type stretch struct {
	from, to int32  // the numbers of the chunks; to is behind the last
	some     *chunk // nil: all
}

func (s *stretch) len() int {
	if s.some != nil {
		return s.some.n
	}
	return int(s.to-s.from) * chunkBits
}

// Indexes is a set of completion indexes. The zero value is empty. What it costs depends on how scattered the indexes are and not on
// how many or how large they are, since a Job may have 2^31, which its author, or a status, names in a few characters.
type Indexes struct {
	all []stretch // in ascending order; two that are full do not touch
	n   int
}

// Len returns the number of indexes.
func (x *Indexes) Len() int { return x.n }

// find returns which stretch has a chunk, or else the place where one that has it belongs.
func (x *Indexes) find(c int32) (at int, found bool) {
	at = sort.Search(len(x.all), func(i int) bool { return x.all[i].to > c })
	return at, at < len(x.all) && x.all[at].from <= c
}

// Has reports whether i is in the set.
func (x *Indexes) Has(i int32) bool {
	if i < 0 {
		return false
	}
	at, found := x.find(i / chunkBits)
	return found && (x.all[at].some == nil || x.all[at].some.has(uint(i)%chunkBits))
}

// Add puts i, which must not be negative, into the set, and reports whether it was not there before.
func (x *Indexes) Add(i int32) bool {
	if x.Has(i) {
		return false
	}
	c, b := i/chunkBits, uint(i)%chunkBits
	at, found := x.find(c)
	if !found {
		x.all = slices.Insert(x.all, at, stretch{c, c + 1, &chunk{}})
	}
	some := x.all[at].some
	some.words[b/64] |= 1 << (b % 64)
	some.n++
	x.n++
	if some.n == chunkBits {
		x.all[at].some = nil
		x.join(at)
	}
	return true
}

// join makes one of a full stretch and those that touch it, if they are full.
func (x *Indexes) join(at int) {
	for _, i := range []int{at, at - 1} {
		if i < 0 || i+1 == len(x.all) {
			continue
		}
		if a, b := &x.all[i], &x.all[i+1]; a.some == nil && b.some == nil && a.to == b.from {
			a.to = b.to
			x.all = slices.Delete(x.all, i+1, i+2)
		}
	}
}

// Remove takes i out of the set, and reports whether it was there.
func (x *Indexes) Remove(i int32) bool {
	if !x.Has(i) {
		return false
	}
	c, b := i/chunkBits, uint(i)%chunkBits
	at, _ := x.find(c)
	if s := x.all[at]; s.some == nil {
		some := &chunk{n: chunkBits}
		for w := range some.words {
			some.words[w] = math.MaxUint64
		}
		var parts []stretch
		if s.from < c {
			parts = append(parts, stretch{s.from, c, nil})
		}
		parts = append(parts, stretch{c, c + 1, some})
		if c+1 < s.to {
			parts = append(parts, stretch{c + 1, s.to, nil})
		}
		x.all = slices.Replace(x.all, at, at+1, parts...)
		at, _ = x.find(c)
	}
	some := x.all[at].some
	some.words[b/64] &^= 1 << (b % 64)
	some.n--
	x.n--
	if some.n == 0 {
		x.all = slices.Delete(x.all, at, at+1)
	}
	return true
}

// set adds or removes i.
func (x *Indexes) set(i int32, in bool) {
	if in {
		x.Add(i)
	} else {
		x.Remove(i)
	}
}

// addRange puts all of first..last into the set.
func (x *Indexes) addRange(first, last int32) {
	i, end := int(first), int(last)+1
	for ; i < end && i%chunkBits != 0; i++ {
		x.Add(int32(i))
	}
	if from, to := int32(i/chunkBits), int32(end/chunkBits); from < to {
		x.fill(from, to)
		i = int(to) * chunkBits
	}
	for ; i < end; i++ {
		x.Add(int32(i))
	}
}

// fill puts all indexes of some chunks into the set.
func (x *Indexes) fill(from, to int32) {
	at, found := x.find(from)
	if found {
		from = x.all[at].from
	}
	behind, found := x.find(to - 1)
	if found {
		to = x.all[behind].to
		behind++
	}
	for i := at; i < behind; i++ {
		x.n -= x.all[i].len()
	}
	full := stretch{from: from, to: to}
	x.n += full.len()
	x.all = slices.Replace(x.all, at, behind, full)
	x.join(at)
}

// missing returns the lowest index at or above from that is not in the set.
func (x *Indexes) missing(from int32) int32 {
	i := int(from)
	at, _ := x.find(from / chunkBits)
	for _, s := range x.all[at:] {
		start := int(s.from) * chunkBits
		if i < start {
			break
		}
		if s.some != nil {
			if b := s.some.first(uint(i-start), math.MaxUint64); b < chunkBits {
				return int32(start + int(b))
			}
		}
		i = int(s.to) * chunkBits
	}
	return int32(i)
}

// nthMissing returns the n-th lowest index that is not in the set, counted from 1, or the highest that there can be.
func (x *Indexes) nthMissing(n int) int32 {
	i := 0 // those below are counted
	for _, s := range x.all {
		start := int(s.from) * chunkBits
		if start-i >= n {
			break
		}
		n -= start - i
		i = int(s.to) * chunkBits
		if free := i - start - s.len(); free < n {
			n -= free
			continue
		}
		at := int32(start) - 1
		for ; n > 0; n-- {
			at = x.missing(at + 1)
		}
		return at
	}
	return int32(min(i+n-1, math.MaxInt32))
}

// next returns the lowest index at or above from that is in the set, -1 for none.
func (x *Indexes) next(from int32) int32 {
	at, _ := x.find(from / chunkBits)
	for _, s := range x.all[at:] {
		start := int(s.from) * chunkBits
		i := max(int(from), start)
		if s.some == nil {
			return int32(i)
		}
		if b := s.some.first(uint(i-start), 0); b < chunkBits {
			return int32(start + int(b))
		}
	}
	return -1
}

// run returns the first run of consecutive indexes that starts at or above from.
func (x *Indexes) run(from int32) (first, last int32, ok bool) {
	if first = x.next(from); first < 0 {
		return 0, 0, false
	}
	return first, x.missing(first) - 1, true
}

// Equal reports whether both sets hold the same indexes.
func (x *Indexes) Equal(y *Indexes) bool { return x.n == y.n && x.common(y) == x.n }

// common returns the number of indexes that are in both sets.
func (x *Indexes) common(y *Indexes) int {
	n := 0
	for a, b := x.all, y.all; len(a) > 0 && len(b) > 0; {
		if both := min(a[0].to, b[0].to) - max(a[0].from, b[0].from); both > 0 {
			switch s, t := a[0].some, b[0].some; {
			case s == nil && t == nil:
				n += int(both) * chunkBits
			case s == nil:
				n += t.n
			case t == nil:
				n += s.n
			default:
				for w := range s.words {
					n += bits.OnesCount64(s.words[w] & t.words[w])
				}
			}
		}
		if a[0].to < b[0].to {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return n
}

// String formats the set as status.completedIndexes and status.failedIndexes have it: "1,3,4,7-9".
func (x *Indexes) String() string {
	var s []byte
	for first, last, ok := x.run(0); ok; first, last, ok = x.run(last + 1) {
		s = indexes.AppendRun(s, first, last)
	}
	return string(s)
}

// is reports whether String would return s, without building that.
func (x *Indexes) is(s string) bool {
	first, last, ok := x.run(0)
	for ok {
		n := len(s)
		var a, b int32
		a, b, s = indexes.NextRun(s)
		if n == 0 || a != first {
			return false
		}
		if last == first+1 && b == first { // neighbours are written "3,4"
			if n = len(s); n == 0 {
				return false
			}
			b, _, s = indexes.NextRun(s)
		}
		if b != last {
			return false
		}
		first, last, ok = x.run(last + 1)
	}
	return s == ""
}

// ParseIndexes parses what String returns. Indexes at or above limit, and whatever is malformed, are left out.
func ParseIndexes(s string, limit int32) *Indexes {
	x := &Indexes{}
	for len(s) > 0 {
		var first, last int32
		first, last, s = indexes.NextRun(s)
		if first >= 0 && first <= last && first < limit {
			x.addRange(first, min(last, limit-1))
		}
	}
	return x
}
