package logs

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// Buffers is a pool of memory for those who write at the moment, so that silent containers hold none. The zero value is
// ready.
type Buffers struct{ ordinary, large sync.Pool }

const (
	// bufferSize is what one read of a full pipe returns.
	bufferSize = 64 << 10
	// LargeBuffer is the size of the buffers for containers that write a lot.
	LargeBuffer = 1 << 20
)

// Get returns a buffer of 64 KiB, or a large one; Put returns it to the pool.
func (b *Buffers) Get(large bool) *[]byte {
	pool, size := &b.ordinary, bufferSize
	if large {
		pool, size = &b.large, LargeBuffer
	}
	if buffer, ok := pool.Get().(*[]byte); ok {
		return buffer
	}
	buffer := make([]byte, size)
	return &buffer
}

func (b *Buffers) Put(buffer *[]byte) {
	if len(*buffer) == LargeBuffer {
		b.large.Put(buffer)
	} else {
		b.ordinary.Put(buffer)
	}
}

// Writer writes one container's log. Its streams may be written to at the same time.
type Writer struct {
	buffers *Buffers
	now     func() time.Time

	mu   sync.Mutex
	out  io.Writer
	torn bool // the last write stopped within a record
}

// NewWriter returns a writer to out, which is called once for each call of the writer where the buffers suffice.
func NewWriter(out io.Writer, buffers *Buffers) *Writer {
	return &Writer{out: out, buffers: buffers, now: time.Now}
}

// StreamWriter takes what a container writes to one of its streams. It is used by one goroutine.
type StreamWriter struct {
	w             *Writer
	full, partial string // what stands between time and text of such a record
	line          []byte // the beginning of a line whose end is still to come, at most maxRecord
}

// Stream returns the writer of a stream.
func (w *Writer) Stream(s Stream) *StreamWriter {
	return &StreamWriter{w: w, full: " " + string(s) + " F ", partial: " " + string(s) + " P "}
}

// Write logs a piece of output. A line that is not yet complete is held until it is, or has grown to maxRecord, so that
// the streams do not tear each other's lines; Close writes it. When the log cannot be written the piece is lost, the
// error says so, and later pieces start on a fresh record.
func (s *StreamWriter) Write(piece []byte) (int, error) {
	if end := bytes.LastIndexByte(piece, '\n'); end < 0 && len(s.line)+len(piece) <= maxRecord {
		s.line = append(s.line, piece...)
		return len(piece), nil
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	b := s.w.begin(len(piece) > bufferSize)
	defer b.release()
	for rest := piece; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte{'\n'})
		for len(s.line)+len(line) > maxRecord {
			n := maxRecord - len(s.line)
			b.add(s.partial, s.line, line[:n])
			s.line, line = nil, line[n:]
		}
		if !whole {
			s.line = append(s.line, line...)
			break
		}
		b.add(s.full, s.line, line)
		s.line, rest = nil, after
	}
	return len(piece), b.flush()
}

// Close writes what is left of an unfinished last line. The log stays open.
func (s *StreamWriter) Close() error {
	if len(s.line) == 0 {
		return nil
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	b := s.w.begin(false)
	defer b.release()
	b.add(s.partial, s.line, nil)
	s.line = nil
	return b.flush()
}

// batch collects records of the same instant for one write.
type batch struct {
	w    *Writer
	lent *[]byte
	buf  []byte
	// head is what stands before the text of the record: the time, which is the same for all, and tags. Records that
	// follow each other nearly always have the same.
	head []byte
	time int // its length in head
	tags string
	err  error
}

func (w *Writer) begin(large bool) *batch {
	b := &batch{w: w, lent: w.buffers.Get(large)}
	b.buf = (*b.lent)[:0]
	if w.torn { // what comes now must not be read as the end of what was cut off
		b.buf = append(b.buf, '\n')
	}
	b.head = w.now().UTC().AppendFormat(make([]byte, 0, len(timeWritten)+16), timeWritten)
	b.time = len(b.head)
	return b
}

// add adds a record whose text comes in two parts; the first is usually empty.
func (b *batch) add(tags string, first, second []byte) {
	if b.tags != tags {
		b.head, b.tags = append(b.head[:b.time], tags...), tags
	}
	if len(b.buf)+len(b.head)+len(first)+len(second)+1 > cap(b.buf) {
		b.err = b.flush()
	}
	buf := append(b.buf, b.head...)
	if len(first) > 0 {
		buf = append(buf, first...)
	}
	buf = append(buf, second...)
	b.buf = append(buf, '\n')
}

func (b *batch) flush() error {
	if len(b.buf) == 0 || b.err != nil {
		b.buf = b.buf[:0]
		return b.err
	}
	n, err := b.w.out.Write(b.buf)
	if n > 0 {
		b.w.torn = b.buf[n-1] != '\n'
	}
	b.buf, b.err = b.buf[:0], err
	return err
}

func (b *batch) release() { b.w.buffers.Put(b.lent) }
