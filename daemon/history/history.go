// Package history keeps what ended Jobs have run and used, long after their objects are gone.
//
// Ended Jobs come in one by one (Log.Append), in the transaction that ends them. They are stored as they come, and once
// there are enough of them, together in compressed blocks. A block begins with the hashes of what Jobs can be found by, so
// that a search decodes only the blocks with something to find. Pages of Jobs go out (Read). What is too old is removed, and
// when all is too large, the oldest of the namespaces that have most (Prune). It writes under two resources of its own in
// the store, which no client sees.
package history

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	wire "github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/store"
)

// The first parts of the keys.
const (
	// blocks hold many Jobs.
	blocks = "history.jobd.dev"
	// pending hold those that have ended since the last block was made.
	pending = "historypending.jobd.dev"
)

const (
	// blockJobs is how many Jobs make a block.
	blockJobs = 256
	// blockBytes is how large pending Jobs may become before they make a block, though they are few.
	blockBytes = 256 << 10
)

// Limits bound what is kept.
type Limits struct {
	Age  time.Duration // since the end of a Job; 0: nothing is kept
	Size int64         // of all, in bytes as stored; 0: nothing is kept
}

// piece is a stored object of Blocks or Pending, as its key describes it. Jobs are numbered as they end.
type piece struct {
	key   string
	first uint64 // number of its first Job
	jobs  uint64
	ended int64 // when the last of them ended, in seconds since 1970
	size  int64

	// shares say who has how much of a block; nil while nobody has asked.
	shares []share
}

func newPiece(resource string, first uint64, jobs []wire.Job, size int) piece {
	p := piece{first: first, jobs: uint64(len(jobs)), size: int64(size)}
	for i := range jobs {
		p.ended = max(p.ended, jobs[i].Ended.Unix())
	}
	p.key = fmt.Sprintf("%s/%016x-%x-%x-%x", resource, p.first, p.jobs, p.ended, p.size)
	return p
}

func parsePiece(key string) (p piece, err error) {
	p.key = key
	_, rest, _ := strings.Cut(key, "/")
	if n, err := fmt.Sscanf(rest, "%x-%x-%x-%x", &p.first, &p.jobs, &p.ended, &p.size); err != nil || n != 4 {
		return p, fmt.Errorf("%s: this is no part of the history", key)
	}
	return p, nil
}

// pieces returns the pieces of a resource in the order of the Jobs' ends.
func pieces(s *store.Snapshot, resource string) (all []piece, err error) {
	s.Keys(resource+"/", "", func(key string) bool {
		var p piece
		if p, err = parsePiece(key); err == nil {
			all = append(all, p)
		}
		return err == nil
	})
	return all, err
}

// Writer is the transaction in which Jobs are appended.
type Writer interface {
	Get(key string) (store.Object, bool)
	PutStored(store.Object)
	Delete(key string)
}

// Log appends Jobs. It knows what is stored, and so has to be made anew when what it has written is lost. It serves one
// goroutine.
type Log struct {
	limits          Limits
	blocks, pending []piece
}

// Open reads what is stored.
func Open(s *store.Snapshot, limits Limits) (*Log, error) {
	l := &Log{limits: limits}
	var err error
	if l.blocks, err = pieces(s, blocks); err != nil {
		return nil, err
	}
	l.pending, err = pieces(s, pending)
	return l, err
}

// Append writes Jobs that have ended. version is a version of the store from which nothing was removed yet: it begins the
// numbers when there are no Jobs.
func (l *Log) Append(w Writer, version uint64, jobs []wire.Job) error {
	if len(jobs) == 0 || l.limits.Age <= 0 || l.limits.Size <= 0 {
		return nil
	}
	next := version
	if all := append(l.blocks[:len(l.blocks):len(l.blocks)], l.pending...); len(all) > 0 {
		last := all[len(all)-1]
		next = last.first + last.jobs
	}
	value, err := encodeLines(jobs)
	if err != nil {
		return err
	}
	count, size := uint64(len(jobs)), int64(len(value))
	for _, p := range l.pending {
		count += p.jobs
		size += p.size
	}
	if count < blockJobs && size < blockBytes {
		p := newPiece(pending, next, jobs, len(value))
		w.PutStored(store.Object{Key: p.key, Value: value})
		l.pending = append(l.pending, p)
		return nil
	}
	return l.merge(w, next, jobs)
}

// merge makes a block of what is pending and of further Jobs.
func (l *Log) merge(w Writer, next uint64, jobs []wire.Job) error {
	var all []wire.Job
	for _, p := range l.pending {
		o, ok := w.Get(p.key)
		if !ok {
			return fmt.Errorf("%s is missing", p.key)
		}
		all = append(all, decodeLines(o.Value)...)
	}
	first := next - uint64(len(all)) // the numbers have no gaps
	all = append(all, jobs...)
	value, err := encodeBlock(all)
	if err != nil {
		return err
	}
	for _, p := range l.pending {
		w.Delete(p.key)
	}
	p := newPiece(blocks, first, all, len(value))
	w.PutStored(store.Object{Key: p.key, Value: value})
	l.blocks, l.pending = append(l.blocks, p), nil
	return nil
}

func parseContinue(token string) (uint64, error) {
	n, err := strconv.ParseUint(token, 16, 64)
	if err != nil {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("parameter %s: %q is not what an answer had in metadata.continue", wire.ParameterContinue, token))
	}
	return n, nil
}
