package history

import (
	"fmt"
	"slices"
	"time"

	wire "github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/store"
)

const (
	// maxRewritten is how many blocks a call of Prune takes apart, which are some milliseconds each.
	maxRewritten = 4
	// remnant is how large a block may be, in bytes, to be joined with the one before it, and maxSpan how many numbers of
	// Jobs they may have then: what remains of many blocks must not stay as many.
	remnant = 16 << 10
	maxSpan = 8192
)

// Prune removes what is too old and, of what is too much, the oldest of the namespaces that have most, so that nobody pushes
// out what others have. It writes at most n pieces, and reports whether that was all.
func (l *Log) Prune(w Writer, now time.Time, n int) (done bool, err error) {
	oldest := now.Add(-l.limits.Age).Unix()
	for _, of := range []*[]piece{&l.blocks, &l.pending} {
		for len(*of) > 0 && (*of)[0].ended < oldest {
			if n--; n < 0 {
				return false, nil
			}
			w.Delete((*of)[0].key)
			*of = (*of)[1:]
		}
	}
	if size(l.blocks)+size(l.pending) <= l.limits.Size {
		return true, nil
	}
	if !l.weigh(w, n) {
		return false, nil
	}
	return l.shrink(w, n)
}

// size returns what pieces take, in bytes as stored.
func size(pieces []piece) (size int64) {
	for _, p := range pieces {
		size += p.size
	}
	return size
}

// weigh learns the shares of at most n blocks. It reports whether all are known.
func (l *Log) weigh(w Writer, n int) (done bool) {
	counted := 0
	for i := range l.blocks {
		p := &l.blocks[i]
		if p.shares != nil {
			continue
		}
		if n--; n < 0 || counted == maxRewritten {
			return false
		}
		o, _ := w.Get(p.key)
		var written bool
		if p.shares, written = readShares(o.Value); !written {
			counted++
		}
	}
	return true
}

// shrink goes through the blocks, the oldest first, and takes from each the Jobs of the namespaces that have too much. What
// cannot be read is nobody's, and goes first.
func (l *Log) shrink(w Writer, n int) (done bool, err error) {
	held := map[string]int64{}
	for _, p := range l.blocks {
		p.stored(func(namespace string, bytes int64) { held[namespace] += bytes })
	}
	all, pending := size(l.blocks), size(l.pending)
	most := level(held, max(0, l.limits.Size-pending))
	rewritten := 0
	for i := 0; i < len(l.blocks) && all+pending > l.limits.Size; {
		p := l.blocks[i]
		gone, kept := map[string]bool{}, false
		p.stored(func(namespace string, bytes int64) {
			if held[namespace] > most {
				held[namespace] -= bytes
				gone[namespace] = true
			} else {
				kept = true
			}
		})
		switch {
		case kept && len(gone) == 0:
			i++
			continue
		case n == 0 || rewritten == maxRewritten:
			return false, nil
		case !kept:
			w.Delete(p.key)
			l.blocks = slices.Delete(l.blocks, i, i+1)
		default:
			rewritten++
			if i, err = l.thin(w, i, gone); err != nil {
				return false, fmt.Errorf("%s: %w", p.key, err)
			}
		}
		n--
		all = size(l.blocks)
	}
	for ; len(l.blocks) == 0 && len(l.pending) > 0 && pending > l.limits.Size; l.pending = l.pending[1:] {
		if n--; n < 0 {
			return false, nil
		}
		w.Delete(l.pending[0].key)
		pending -= l.pending[0].size
	}
	return true, nil
}

// thin writes block i without the Jobs of some namespaces, together with the block before it if both are small. It returns
// the place of the next block.
func (l *Log) thin(w Writer, i int, gone map[string]bool) (next int, err error) {
	first, jobs := l.blocks[i].first, readBlock(w, l.blocks[i])
	for k := range jobs {
		if gone[jobs[k].Namespace] {
			jobs[k] = wire.Job{}
		}
	}
	value, err := encodeBlock(jobs)
	if err != nil {
		return i, err
	}
	begin := i
	if i > 0 && l.blocks[i-1].size+int64(len(value)) <= remnant && first+uint64(len(jobs))-l.blocks[i-1].first <= maxSpan {
		begin = i - 1
		before := l.blocks[begin]
		between := make([]wire.Job, first-before.first-before.jobs)
		first, jobs = before.first, slices.Concat(readBlock(w, before), between, jobs)
		if value, err = encodeBlock(jobs); err != nil {
			return i, err
		}
	}
	for _, p := range l.blocks[begin : i+1] {
		w.Delete(p.key)
	}
	p := newPiece(blocks, first, jobs, len(value))
	p.shares, _ = readShares(value)
	w.PutStored(store.Object{Key: p.key, Value: value})
	l.blocks = slices.Replace(l.blocks, begin, i+1, p)
	return begin + 1, nil
}

// readBlock returns the Jobs of a block with their pods. Those that cannot be read are gone; each has its number.
func readBlock(w Writer, p piece) []wire.Job {
	o, _ := w.Get(p.key)
	lines, err := openLines(o.Value)
	if err != nil {
		return make([]wire.Job, p.jobs)
	}
	return decodeLines(lines)
}
