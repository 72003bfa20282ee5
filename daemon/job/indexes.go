package job

import (
	"math/bits"

	"github.com/jobd/jobd/api/indexes"
)

const chunkBits = 256

// chunk holds the indexes of one aligned stretch of chunkBits indexes.
type chunk struct {
	words [chunkBits / 64]uint64
	n     int
}

// filled is shared by all stretches in which every index is set, so that a long run costs one pointer for each stretch.
// It is never written.
var filled = func() *chunk {
	c := &chunk{n: chunkBits}
	for i := range c.words {
		c.words[i] = ^uint64(0)
	}
	return c
}()

// Indexes is a set of completion indexes. The zero value is empty. Add, Remove and Has take the same time whatever the
// size, and whether the indexes form one run or alternate.
type Indexes struct {
	chunks []*chunk // nil: the stretch has no index
	n      int
	low    int // every chunk before this one is filled
}

// Len returns the number of indexes.
func (x *Indexes) Len() int { return x.n }

// Has reports whether i is in the set.
func (x *Indexes) Has(i int32) bool {
	c := int(i) / chunkBits
	if i < 0 || c >= len(x.chunks) || x.chunks[c] == nil {
		return false
	}
	b := uint(i) % chunkBits
	return x.chunks[c].words[b/64]&(1<<(b%64)) != 0
}

// Add puts i, which must not be negative, into the set, and reports whether it was not there before.
func (x *Indexes) Add(i int32) bool {
	if x.Has(i) {
		return false
	}
	c := int(i) / chunkBits
	x.grow(c)
	if x.chunks[c] == nil {
		x.chunks[c] = &chunk{}
	}
	b := uint(i) % chunkBits
	x.chunks[c].words[b/64] |= 1 << (b % 64)
	x.chunks[c].n++
	x.n++
	if x.chunks[c].n == chunkBits {
		x.chunks[c] = filled
		x.raise()
	}
	return true
}

// Remove takes i out of the set, and reports whether it was there.
func (x *Indexes) Remove(i int32) bool {
	if !x.Has(i) {
		return false
	}
	c := int(i) / chunkBits
	if x.chunks[c] == filled {
		own := *filled
		x.chunks[c] = &own
	}
	b := uint(i) % chunkBits
	x.chunks[c].words[b/64] &^= 1 << (b % 64)
	x.chunks[c].n--
	x.n--
	x.low = min(x.low, c)
	if x.chunks[c].n == 0 {
		x.chunks[c] = nil
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
	for i := int(first); i <= int(last); {
		if c := i / chunkBits; i%chunkBits == 0 && i+chunkBits-1 <= int(last) {
			x.grow(c)
			if x.chunks[c] != nil {
				x.n -= x.chunks[c].n
			}
			x.chunks[c] = filled
			x.n += chunkBits
			x.raise()
			i += chunkBits
			continue
		}
		x.Add(int32(i))
		i++
	}
}

func (x *Indexes) grow(c int) {
	for len(x.chunks) <= c {
		x.chunks = append(x.chunks, nil)
	}
}

func (x *Indexes) raise() {
	for x.low < len(x.chunks) && x.chunks[x.low] == filled {
		x.low++
	}
}

// missing returns the lowest index at or above from that is not in the set.
func (x *Indexes) missing(from int32) int32 {
	i := max(int(from), x.low*chunkBits)
	for i/chunkBits < len(x.chunks) {
		c := x.chunks[i/chunkBits]
		if c == nil {
			return int32(i)
		}
		if c != filled {
			w := uint(i) % chunkBits / 64
			free := ^c.words[w] >> (uint(i) % 64)
			if free != 0 {
				return int32(i + bits.TrailingZeros64(free))
			}
			i = (i/64 + 1) * 64
			continue
		}
		i = (i/chunkBits + 1) * chunkBits
	}
	return int32(i)
}

// nthMissing returns the n-th lowest index that is not in the set, counted from 1.
func (x *Indexes) nthMissing(n int) int32 {
	c := x.low
	for ; c < len(x.chunks); c++ {
		free := chunkBits
		if x.chunks[c] != nil {
			free -= x.chunks[c].n
		}
		if free >= n {
			break
		}
		n -= free
	}
	i := int32(c*chunkBits) - 1
	if c >= len(x.chunks) || x.chunks[c] == nil {
		return i + int32(n)
	}
	for ; n > 0; n-- {
		i = x.missing(i + 1)
	}
	return i
}

// next returns the lowest index at or above from that is in the set, -1 for none.
func (x *Indexes) next(from int32) int32 {
	i := int(from)
	for i/chunkBits < len(x.chunks) {
		c := x.chunks[i/chunkBits]
		if c == nil {
			i = (i/chunkBits + 1) * chunkBits
			continue
		}
		w := uint(i) % chunkBits / 64
		if set := c.words[w] >> (uint(i) % 64); set != 0 {
			return int32(i + bits.TrailingZeros64(set))
		}
		i = (i/64 + 1) * 64
	}
	return -1
}

// run returns the first run of consecutive indexes that starts at or above from.
func (x *Indexes) run(from int32) (first, last int32, ok bool) {
	first = x.next(from)
	if first < 0 {
		return 0, 0, false
	}
	last = first
	for x.Has(last + 1) {
		if c := int(last+1) / chunkBits; x.chunks[c] == filled {
			last = int32((c+1)*chunkBits) - 1
			continue
		}
		last++
	}
	return first, last, true
}

// Equal reports whether both sets hold the same indexes.
func (x *Indexes) Equal(y *Indexes) bool { return x.n == y.n && x.common(y) == x.n }

// common returns the number of indexes that are in both sets.
func (x *Indexes) common(y *Indexes) int {
	n := 0
	for c := range min(len(x.chunks), len(y.chunks)) {
		a, b := x.chunks[c], y.chunks[c]
		switch {
		case a == nil || b == nil:
		case a == filled:
			n += b.n
		case b == filled:
			n += a.n
		default:
			for w := range a.words {
				n += bits.OnesCount64(a.words[w] & b.words[w])
			}
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
