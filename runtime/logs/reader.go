package logs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"time"
)

// Options selects a part of a log. The zero value is everything that is there now. The fields are those of the API's
// PodLogOptions, and mean the same.
type Options struct {
	// Follow goes on until the container has ended and all it wrote was read.
	Follow bool
	// TailLines is how many lines from the end are wanted; nil is all. With Follow it says where to begin. A line that
	// was split into several records is one line, and one without its end counts.
	TailLines *int64
	// SinceTime leaves out what was written before. Since says the same relative to now (sinceSeconds), if it is not 0; the
	// later of both counts.
	SinceTime time.Time
	Since     time.Duration
	// Timestamps puts the time before each line.
	Timestamps bool
	// LimitBytes ends the output, within a line if need be, after so many bytes; nil is no limit.
	LimitBytes *int64
	// Stream is the one wanted, empty for both.
	Stream Stream
	// Prefix returns what is printed before each line, by the stream that it was written to; nil is nothing.
	Prefix func(Stream) string
	// Missing returns what is printed, as a line of its own, where so many bytes of the files were removed before they could
	// be read: their records, with times. before is when the last line before them was written, zero if none was read. It is
	// not asked about what nobody wanted (TailLines, SinceTime). Nil is nothing.
	Missing func(bytes int64, before time.Time) string
	// Turn waits until the reader may look through more of what is there, until it calls over. Nil: it always may.
	Turn func(context.Context) (over func(), err error)
	// Watcher is what Follow waits with: one for many readers. Nil: one of its own.
	Watcher *Watcher
}

// Read writes the selected part of a container's log to w. With Follow it waits for more until ended is closed, and
// then reads to the end. A missing file is fs.ErrNotExist. It returns the error of w when a write fails, and that of
// ctx when ctx is done first.
func Read(ctx context.Context, path string, o Options, w io.Writer, ended <-chan struct{}) error {
	all, err := openSegments(path)
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	defer all.Close()
	turns := &turns{ctx: ctx, take: o.Turn}
	defer turns.end()
	size := all.size()
	start := int64(0)
	if o.TailLines != nil && *o.TailLines >= 0 {
		if start, err = tailStart(turns, all, size, *o.TailLines, o.Stream); err != nil {
			return fmt.Errorf("read log: %w", err)
		}
	}
	out := newPrinter(w, turns, o, time.Now())
	// What is written from now on does not belong to the answer: a busy container would make it endless.
	end := size
	var newest current
	if o.Follow {
		newest.File, end = all.take(len(all.files) - 1)
		newest.begin = all.begin + end
		defer func() { newest.Close() }()
	}
	if all.begin > 0 && o.TailLines == nil && out.since.IsZero() {
		if err := out.missed(all.begin); err != nil {
			return finish(out, err)
		}
	}
	if start < end {
		if _, err := copyRecords(ctx, io.NewSectionReader(all, start, end-start), out, true); err != nil {
			return finish(out, err)
		}
	}
	if !o.Follow {
		return finish(out, nil)
	}
	all.Close()
	watcher := o.Watcher
	if watcher == nil {
		watcher = &Watcher{}
	}
	newest, err = follow(ctx, watcher, path, newest, max(0, start-end), out, ended)
	return err
}

// follow reads on whenever a log has grown, and returns the file that it has read last.
func follow(
	ctx context.Context, watcher *Watcher, path string, f current, position int64, out *printer, ended <-chan struct{},
) (current, error) {
	watch, err := watcher.watch(filepath.Dir(path))
	if err != nil {
		return f, fmt.Errorf("follow log: %w", err)
	}
	defer watch.Close()
	for {
		last := false
		select {
		case <-ended:
			last = true // whatever was written is there by now
		default:
		}
		// Nothing is written any more to a file that was replaced.
		over, err := replaced(path, f.File)
		if err != nil {
			return f, fmt.Errorf("follow log: %w", err)
		}
		n, err := copyRecords(ctx, io.NewSectionReader(f, position, 1<<62), out, last || over)
		position += n
		if err != nil || last && !over {
			return f, finish(out, err)
		}
		if over {
			next, missed, err := after(path, f)
			switch {
			case err == nil:
				f.Close()
				f, position = next, 0
				if missed > 0 {
					if err := out.missed(missed); err != nil {
						return f, finish(out, err)
					}
				}
				continue
			case !errors.Is(err, fs.ErrNotExist):
				return f, fmt.Errorf("follow log: %w", err)
			}
		}
		if err := out.flush(); err != nil {
			return f, finish(out, err)
		}
		if err := watch.wait(ctx, ended); err != nil {
			return f, err
		}
	}
}

func finish(out *printer, err error) error {
	if err == nil || errors.Is(err, errEnough) {
		err = out.flush()
	}
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// copyRecords prints all records that r holds and returns how many bytes of it were used. A record that has no end yet
// is left for later, or with last is taken as it is. What is no record is skipped.
func copyRecords(ctx context.Context, r io.Reader, out *printer, last bool) (used int64, err error) {
	lines := bufio.NewReaderSize(r, bufferSize)
	defer out.turns.end()
	for n := 0; ; n++ {
		if n%256 == 0 && ctx.Err() != nil {
			return used, ctx.Err()
		}
		if err := out.turns.line(n); err != nil {
			return used, err
		}
		line, err := readLine(lines)
		if err != nil && err != io.EOF {
			return used, fmt.Errorf("read log: %w", err)
		}
		if err == io.EOF && (len(line) == 0 || !last) {
			return used, nil
		}
		used += int64(len(line))
		if r, broken := parse(line); broken == nil {
			if err := out.print(r, line[len(line)-1] == '\n'); err != nil {
				return used, err
			}
		}
		if err == io.EOF {
			return used, nil
		}
	}
}

// readLine returns a line with its end, without a copy where it fits the buffer. It is valid until the next read.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	line = bytes.Clone(line) // not written by us: our records fit
	rest, err := r.ReadBytes('\n')
	return append(line, rest...), err
}

// errEnough ends the reading when the limit is reached.
var errEnough = errors.New("limit reached")

// printer writes the wanted records' text.
type printer struct {
	to         io.Writer
	out        *bufio.Writer // to it; nil while nothing is held back, since a reader may follow many silent logs
	turns      *turns
	stream     Stream
	since      time.Time
	timestamps bool
	prefix     func(Stream) string
	missing    func(bytes int64, before time.Time) string
	last       time.Time // when the last record that was read was written
	remaining  int64     // negative: no limit
	lineStart  bool
	stamp      []byte
}

// printers are the buffers of those who print at the moment.
var printers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 32<<10) }}

func newPrinter(w io.Writer, turns *turns, o Options, now time.Time) *printer {
	p := &printer{
		to: outside{w, turns}, turns: turns, stream: o.Stream, since: o.SinceTime, timestamps: o.Timestamps,
		prefix: o.Prefix, missing: o.Missing, remaining: -1, lineStart: true,
	}
	if o.LimitBytes != nil && *o.LimitBytes >= 0 {
		p.remaining = *o.LimitBytes
	}
	if o.Since != 0 {
		if since := now.Add(-o.Since); since.After(p.since) {
			p.since = since
		}
	}
	return p
}

// print writes a record; terminated says whether it has its newline in the file.
func (p *printer) print(r record, terminated bool) error {
	p.last = r.time
	startsLine := p.lineStart
	wanted := p.stream == "" || p.stream == r.stream
	if wanted {
		p.lineStart = !r.partial && terminated
	}
	if !wanted || r.time.Before(p.since) {
		return nil
	}
	if p.prefix != nil && startsLine {
		if err := p.write([]byte(p.prefix(r.stream))); err != nil {
			return err
		}
	}
	if p.timestamps && startsLine {
		p.stamp = append(r.time.AppendFormat(p.stamp[:0], timeWritten), ' ')
		if err := p.write(p.stamp); err != nil {
			return err
		}
	}
	if err := p.write(r.text); err != nil {
		return err
	}
	if r.partial || !terminated {
		return nil
	}
	return p.write([]byte{'\n'})
}

// missed says that so many bytes of the files could not be read.
func (p *printer) missed(bytes int64) error {
	if p.missing == nil {
		return nil
	}
	line := p.missing(bytes, p.last) + "\n"
	if !p.lineStart {
		line = "\n" + line
	}
	p.lineStart = true
	return p.write([]byte(line))
}

func (p *printer) write(b []byte) error {
	if p.out == nil {
		p.out = printers.Get().(*bufio.Writer)
		p.out.Reset(p.to)
	}
	if p.remaining < 0 {
		_, err := p.out.Write(b)
		return err
	}
	n := min(p.remaining, int64(len(b)))
	p.remaining -= n
	if _, err := p.out.Write(b[:n]); err != nil {
		return err
	}
	if p.remaining == 0 {
		return errEnough
	}
	return nil
}

func (p *printer) flush() error {
	if p.out == nil {
		return nil
	}
	err := p.out.Flush()
	p.out.Reset(nil)
	printers.Put(p.out)
	p.out = nil
	return err
}
