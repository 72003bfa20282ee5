// Package history keeps what ended Jobs have run and used, long after their objects are gone.
//
// Ended Jobs come in one by one (Log.Append), in the transaction that ends them. They are stored as they come, and once
// there are enough of them, together in compressed blocks. A block begins with the hashes of what Jobs can be found by, so
// that a search decodes only the blocks with something to find. Pages of Jobs go out (Read). What is too old is removed, and
// when all is too large, the oldest of the namespaces that have most (Prune). It writes under two resources of its own in
// the store, which no client sees.
package history

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
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

// blockFormat is the first byte of a block.
const blockFormat = 1

// encodeBlock returns a block: its format in a byte, the number of hashes as a uvarint, the hashes in order, 4 bytes each,
// the shares, and the Jobs as compressed lines.
func encodeBlock(jobs []wire.Job) ([]byte, error) {
	var hashes []uint32
	for i := range jobs {
		if jobs[i].UID == "" {
			continue // a gap
		}
		for _, t := range terms(&jobs[i]) {
			hashes = append(hashes, hash(t))
		}
	}
	slices.Sort(hashes)
	hashes = slices.Compact(hashes)
	b := binary.AppendUvarint([]byte{blockFormat}, uint64(len(hashes)))
	for _, h := range hashes {
		b = binary.BigEndian.AppendUint32(b, h)
	}
	lines, err := encodeLines(jobs)
	if err != nil {
		return nil, err
	}
	if b, err = appendShares(b, sharesOf(lines)); err != nil {
		return nil, err
	}
	// A block is small, and so is the window.
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(256<<10),
		zstd.WithEncoderLevel(zstd.SpeedBetterCompression))
	if err != nil {
		return nil, err
	}
	return encoder.EncodeAll(lines, b), nil
}

// block is a block whose Jobs are still compressed. What is before them in lines, decoders skip.
type block struct{ hashes, lines []byte }

func openBlock(value []byte) (b block, err error) {
	if len(value) == 0 || value[0] != blockFormat {
		return b, errors.New("a format of the history that this jobd does not know")
	}
	n, size := binary.Uvarint(value[1:])
	rest := value[min(1+max(size, 0), len(value)):]
	if size <= 0 || n > uint64(len(rest)/4) {
		return b, errors.New("the block is cut short")
	}
	return block{rest[:4*n], rest[4*n:]}, nil
}

// has reports whether a term may be in a block.
func (b block) has(term string) bool {
	want := hash(term)
	low, high := 0, len(b.hashes)/4
	for low < high {
		middle := (low + high) / 2
		switch h := binary.BigEndian.Uint32(b.hashes[4*middle:]); {
		case h == want:
			return true
		case h < want:
			low = middle + 1
		default:
			high = middle
		}
	}
	return false
}

// maxBlock bounds what a block is decompressed to, which one Job of many pods may exceed.
const maxBlock = 256 << 20

func newDecoder() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBlock))
}

// encodeLines returns a line for each Job: the Job as JSON and, after a tab, its pods, which most readers leave out. One
// that was removed is an empty line, so that those behind it keep their numbers.
func encodeLines(jobs []wire.Job) ([]byte, error) {
	var b []byte
	for _, j := range jobs {
		if j.UID == "" {
			b = append(b, '\n')
			continue
		}
		pods := j.Pods
		j.Pods = nil
		for i, part := range []any{&j, pods} {
			text, err := json.Marshal(part)
			if err != nil {
				return nil, err
			}
			b = append(append(b, text...), "\t\n"[i])
		}
	}
	return b, nil
}

// decodeLine reads a line, with its pods or without.
func decodeLine(line []byte, withPods bool) (j wire.Job, err error) {
	job, pods, ok := bytes.Cut(line, []byte("\t"))
	if !ok {
		return j, errors.New("a line is cut short")
	}
	if err = json.Unmarshal(job, &j); err == nil && withPods {
		err = json.Unmarshal(pods, &j.Pods)
	}
	return j, err
}

// decodeLines reads lines with their pods. One that cannot be read becomes a Job of which nothing is known: it must neither hide the
// others nor stop what is made of them, and each has its number.
func decodeLines(lines []byte) (jobs []wire.Job) {
	for line := range bytes.Lines(lines) {
		j, err := decodeLine(line, true)
		if err != nil {
			j = wire.Job{}
		}
		jobs = append(jobs, j)
	}
	return jobs
}

// terms are what a Job is found by.
func terms(j *wire.Job) []string {
	t := []string{namespaceTerm(j.Namespace)}
	if j.Kind == wire.KindJobSet {
		t = append(t, jobSetTerm(j.Namespace, j.Name))
	} else {
		t = append(t, nameTerm(j.Namespace, j.Name))
	}
	if j.User != "" {
		t = append(t, userTerm(j.User))
	}
	if j.CronJob != "" {
		t = append(t, cronJobTerm(j.Namespace, j.CronJob))
	}
	if j.GenerateName != "" {
		t = append(t, generateNameTerm(j.Namespace, j.GenerateName))
	}
	for name, value := range j.Labels {
		t = append(t, labelTerm(name, value))
	}
	return t
}

func namespaceTerm(namespace string) string     { return "n" + namespace }
func nameTerm(namespace, name string) string    { return "j" + namespace + "/" + name }
func jobSetTerm(namespace, name string) string  { return "s" + namespace + "/" + name }
func cronJobTerm(namespace, name string) string { return "c" + namespace + "/" + name }
func generateNameTerm(namespace, prefix string) string {
	return "g" + namespace + "/" + prefix
}
func userTerm(user string) string         { return "u" + user }
func labelTerm(name, value string) string { return "l" + name + "=" + value }

func hash(term string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(term))
	return h.Sum32()
}

func parseContinue(token string) (uint64, error) {
	n, err := strconv.ParseUint(token, 16, 64)
	if err != nil {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("parameter %s: %q is not what an answer had in metadata.continue", wire.ParameterContinue, token))
	}
	return n, nil
}
