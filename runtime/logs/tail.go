package logs

import (
	"bytes"
	"fmt"
	"io"
	"time"
)

// tailStart finds where the last lines of a log begin, reading backwards from its size. Lines of other streams than the
// wanted one do not count.
func tailStart(turns *turns, r io.ReaderAt, size, lines int64, wanted Stream) (start int64, err error) {
	if lines == 0 {
		return size, nil
	}
	err = lastLines(turns, r, size, wanted, func(end int64, _ time.Time) bool {
		if lines--; lines < 0 {
			start = end
		}
		return lines >= 0
	})
	return start, err
}

// LastLines calls see with the time of each line of a log, the last one first, until that returns false. It is the time of the
// line's last record. Of the options, the stream counts.
func LastLines(path string, o Options, see func(time.Time) bool) error {
	all, err := openSegments(path)
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	defer all.Close()
	if err := lastLines(&turns{}, all, all.size(), o.Stream, func(_ int64, at time.Time) bool { return see(at) }); err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	return nil
}

// lastLines calls see with the end of each line of a log and when that was written, reading backwards from its size, until see
// returns false. A line's end is a full record; the last record of a stream is one in any case.
func lastLines(turns *turns, r io.ReaderAt, size int64, wanted Stream, see func(end int64, at time.Time) bool) error {
	seen := map[Stream]bool{}
	scan := backwards{r: r, start: size}
	defer turns.end()
	for n := 0; ; n++ {
		if err := turns.line(n); err != nil {
			return err
		}
		at, line, err := scan.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		rec, err := parse(line)
		if err != nil || (wanted != "" && rec.stream != wanted) {
			continue
		}
		if !rec.partial || !seen[rec.stream] {
			seen[rec.stream] = true
			if !see(at+int64(len(line)), rec.time) {
				return nil
			}
		}
	}
}

// backwards iterates over the lines of a file from its end to its beginning.
type backwards struct {
	r     io.ReaderAt
	start int64  // where have begins in the file
	have  []byte // read, and not yet returned
}

// next returns a line with its newline (the last one of a file may lack it) and where it begins; io.EOF at the
// beginning. The line is valid until the next call.
func (b *backwards) next() (int64, []byte, error) {
	for searched := 0; ; {
		// The newline at the very end belongs to the line that is wanted.
		body := b.have[:max(0, len(b.have)-1-searched)]
		if i := bytes.LastIndexByte(body, '\n'); i >= 0 {
			line := b.have[i+1:]
			b.have = b.have[:i+1]
			return b.start + int64(i) + 1, line, nil
		}
		if b.start == 0 {
			if len(b.have) == 0 {
				return 0, nil, io.EOF
			}
			line := b.have
			b.have = nil
			return 0, line, nil
		}
		searched = max(0, len(b.have)-1)
		n := min(b.start, max(bufferSize, int64(len(b.have)))) // doubling: a long line costs no more than its length
		more := make([]byte, n, n+int64(len(b.have)))
		if _, err := b.r.ReadAt(more, b.start-n); err != nil {
			return 0, nil, fmt.Errorf("read backwards: %w", err)
		}
		b.have = append(more, b.have...)
		b.start -= n
	}
}
