package history

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/fnv"
	"slices"

	"github.com/klauspost/compress/zstd"

	wire "github.com/jobd/jobd/api/history"
)

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
	var lines []byte
	counted, err := counter{}, error(nil)
	for i := range jobs {
		began := len(lines)
		if lines, err = appendLine(lines, jobs[i]); err != nil {
			return nil, err
		}
		if jobs[i].UID != "" {
			counted[jobs[i].Namespace] += int64(len(lines) - began)
		}
	}
	if b, err = appendShares(b, counted.shares()); err != nil {
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

// openLines returns the lines of a block.
func openLines(value []byte) ([]byte, error) {
	b, err := openBlock(value)
	if err != nil {
		return nil, err
	}
	decoder, err := newDecoder()
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	return decoder.DecodeAll(b.lines, nil)
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

// encodeLines returns a line for each Job.
func encodeLines(jobs []wire.Job) (b []byte, err error) {
	for i := range jobs {
		if b, err = appendLine(b, jobs[i]); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// appendLine adds a Job as JSON and, after a tab, its pods, which most readers leave out. One that was removed is an empty
// line, so that those behind it keep their numbers.
func appendLine(b []byte, j wire.Job) ([]byte, error) {
	if j.UID == "" {
		return append(b, '\n'), nil
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
