package history

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"
)

// share is what a namespace has of a block.
type share struct {
	Namespace string `json:"n"`
	Bytes     int64  `json:"b"` // of its lines, before they are compressed
}

// skipped begins a frame that decoders of zstd skip (RFC 8878, 3.1.2): a jobd that knows nothing of shares reads the block
// as before.
const skipped = 0x184D2A50

// appendShares writes shares into a block, before its lines.
func appendShares(b []byte, shares []share) ([]byte, error) {
	text, err := json.Marshal(shares)
	if err != nil {
		return nil, err
	}
	b = binary.LittleEndian.AppendUint32(b, skipped)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	return append(b, text...), nil
}

// readShares returns the shares of a block, and whether they were written in it: one of a jobd that wrote none is read as a
// whole. What cannot be read has none.
func readShares(value []byte) (shares []share, written bool) {
	shares = []share{}
	b, err := openBlock(value)
	if err != nil {
		return shares, false
	}
	if len(b.lines) >= 8 && binary.LittleEndian.Uint32(b.lines) == skipped {
		size := uint64(binary.LittleEndian.Uint32(b.lines[4:]))
		if text := b.lines[8:]; size <= uint64(len(text)) && json.Unmarshal(text[:size], &shares) == nil {
			return shares, true
		}
	}
	lines, err := openLines(value)
	if err != nil {
		return []share{}, false
	}
	return sharesOf(lines), false
}

// sharesOf counts the lines of Jobs.
func sharesOf(lines []byte) []share {
	counted := counter{}
	for line := range bytes.Lines(lines) {
		if j, err := decodeLine(line, false); err == nil {
			counted[j.Namespace] += int64(len(line))
		}
	}
	return counted.shares()
}

// counter is how many bytes of lines each namespace has.
type counter map[string]int64

// shares returns them in the order of the namespaces' names.
func (c counter) shares() []share {
	shares := []share{}
	for _, namespace := range slices.Sorted(maps.Keys(c)) {
		shares = append(shares, share{namespace, c[namespace]})
	}
	return shares
}

// stored returns how much of a block as it is stored falls to each namespace, in proportion to its lines.
func (p piece) stored(do func(namespace string, bytes int64)) {
	var lines int64
	for _, s := range p.shares {
		lines += s.Bytes
	}
	for _, s := range p.shares {
		do(s.Namespace, int64(float64(p.size)*float64(s.Bytes)/float64(max(lines, 1))))
	}
}

// level returns how much each namespace may have so that all that is held becomes no more than limit: who has less than
// others loses nothing to them.
func level(held map[string]int64, limit int64) int64 {
	left := int64(len(held))
	for _, bytes := range slices.Sorted(maps.Values(held)) {
		if bytes > limit/left {
			return limit / left
		}
		limit -= bytes
		left--
	}
	return limit
}
