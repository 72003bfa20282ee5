package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func pointer[T any](v T) *T { return &v }

// readAll is Read without files, for the parts that do not follow.
func readAll(log []byte, o Options) ([]byte, error) {
	start := int64(0)
	if o.TailLines != nil {
		var err error
		if start, err = tailStart(&turns{}, bytes.NewReader(log), int64(len(log)), *o.TailLines, o.Stream); err != nil {
			return nil, err
		}
	}
	var out bytes.Buffer
	p := newPrinter(&out, &turns{}, o, noon.Add(10*time.Second))
	_, err := copyRecords(context.Background(), bytes.NewReader(log[start:]), p, true)
	err = finish(p, err)
	return out.Bytes(), err
}

func TestRead(t *testing.T) {
	const log = "2026-01-02T12:00:00.000000001Z stdout F one\n" +
		"2026-01-02T12:00:01.5Z stderr F two\n" +
		"2026-01-02T12:00:02.000000003Z stdout P thr\n" +
		"2026-01-02T12:00:03.000000004Z stdout F ee\n" +
		"2026-01-02T14:00:04.000000005+02:00 stderr F four\n" +
		"2026-01-02T12:00:05.000000006Z stdout P five"
	for name, c := range map[string]struct {
		log  string
		o    Options
		want string
	}{
		"everything, with partial records joined": {log: log, want: "one\ntwo\nthree\nfour\nfive"},
		"no lines of the end":                     {log: log, o: Options{TailLines: pointer[int64](0)}, want: ""},
		"an unfinished last line counts":          {log: log, o: Options{TailLines: pointer[int64](1)}, want: "five"},
		"a split line counts once":                {log: log, o: Options{TailLines: pointer[int64](3)}, want: "three\nfour\nfive"},
		"more lines than there are":               {log: log, o: Options{TailLines: pointer[int64](30)}, want: "one\ntwo\nthree\nfour\nfive"},
		"the last lines of one stream":            {log: log, o: Options{TailLines: pointer[int64](1), Stream: Stderr}, want: "four\n"},
		"since a time, that time included":        {log: log, o: Options{SinceTime: time.Date(2026, 1, 2, 12, 0, 3, 4, time.UTC)}, want: "ee\nfour\nfive"},
		"since seconds ago":                       {log: log, o: Options{Since: 6 * time.Second}, want: "four\nfive"},
		"since ages ago":                          {log: log, o: Options{Since: math.MaxInt64, TailLines: pointer[int64](2)}, want: "four\nfive"},
		"the later of both counts":                {log: log, o: Options{Since: 1000 * time.Second, SinceTime: noon.Add(5 * time.Second)}, want: "five"},
		"times only at the start of lines": {log: log, o: Options{Timestamps: true},
			want: "2026-01-02T12:00:00.000000001Z one\n2026-01-02T12:00:01.500000000Z two\n" +
				"2026-01-02T12:00:02.000000003Z three\n2026-01-02T14:00:04.000000005+02:00 four\n2026-01-02T12:00:05.000000006Z five"},
		"a limit cuts within a line": {log: log, o: Options{LimitBytes: pointer[int64](6)}, want: "one\ntw"},
		"a limit counts the times too": {
			log: log, o: Options{LimitBytes: pointer[int64](34), Timestamps: true}, want: "2026-01-02T12:00:00.000000001Z one",
		},
		"one stream": {log: log, o: Options{Stream: Stderr}, want: "two\nfour\n"},
		"what is no record is passed over": {
			log:  "rubbish\n\n2026-01-02T12:00:00Z stdout F fine\n2026-01-02T12:00:00Z stdxxx F bad\n2026-01-02T12:00:00Z\n",
			want: "fine\n",
		},
		"a tag that is not known is a full record": {
			log: "2026-01-02T12:00:00Z stdout F:new:tags text\n2026-01-02T12:00:00Z stdout P:new more\n", want: "text\nmore",
		},
		"a record cut off by a crash has no end": {log: "2026-01-02T12:00:00Z stdout F cut o", want: "cut o"},
		"an empty log":                           {},
		"the end of an empty log":                {o: Options{TailLines: pointer[int64](5)}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readAll([]byte(c.log), c.o)
			if err != nil || string(got) != c.want {
				t.Errorf("got  %q (%v)\nwant %q", got, err, c.want)
			}
		})
	}
}

func TestTailOfLongLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var log bytes.Buffer
		s := newTestWriter(&log).Stream(Stdout)
		var lines []string
		for i := range rapid.IntRange(0, 20).Draw(t, "lines") {
			lines = append(lines, fmt.Sprintf("%d%s\n", i, strings.Repeat("x", rapid.SampledFrom([]int{0, 5, maxRecord, 5 * maxRecord}).Draw(t, "length"))))
			s.Write([]byte(lines[i]))
		}
		n := rapid.IntRange(0, 25).Draw(t, "tail")
		got, err := readAll(log.Bytes(), Options{TailLines: pointer(int64(n))})
		if want := strings.Join(lines[max(0, len(lines)-n):], ""); err != nil || string(got) != want {
			t.Fatalf("tail %d of %d lines gave %d bytes, want %d (%v)", n, len(lines), len(got), len(want), err)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("2026-01-02T15:04:05.000000000Z stdout F text\n"))
	f.Add([]byte("2026-01-02T15:04:05+02:00 stderr P:x \xff"))
	f.Add([]byte("  F "))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := parse(line)
		if err != nil {
			return
		}
		if r.stream != Stdout && r.stream != Stderr {
			t.Errorf("stream %q", r.stream)
		}
		if !bytes.HasSuffix(bytes.TrimSuffix(line, []byte{'\n'}), r.text) {
			t.Errorf("text %q is not the end of %q", r.text, line)
		}
	})
}

func FuzzReadAnyFile(f *testing.F) {
	f.Add([]byte("2026-01-02T15:04:05.000000000Z stdout F text\nrubbish\n\n"), int64(1), int64(5))
	f.Fuzz(func(t *testing.T, log []byte, tail, limit int64) {
		if tail < 0 {
			tail = -tail
		}
		all, err := readAll(log, Options{})
		if err != nil {
			t.Fatal(err)
		}
		part, err := readAll(log, Options{TailLines: &tail})
		if err != nil || !bytes.HasSuffix(all, part) {
			t.Errorf("tail %d of %q is %q (%v)", tail, log, part, err)
		}
		if limit >= 0 {
			if cut, err := readAll(log, Options{LimitBytes: &limit}); err != nil || !bytes.HasPrefix(all, cut) || int64(len(cut)) > limit {
				t.Errorf("limit %d of %q is %q (%v)", limit, log, cut, err)
			}
		}
	})
}

// syncBuffer may be read while it is written.
type syncBuffer struct {
	mu      sync.Mutex
	content bytes.Buffer
	changed chan struct{}
}

func newSyncBuffer() *syncBuffer { return &syncBuffer{changed: make(chan struct{}, 1)} }

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.changed <- struct{}{}:
	default:
	}
	return b.content.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.content.String()
}

func (b *syncBuffer) waitFor(t *testing.T, want string) {
	t.Helper()
	late := time.After(time.Minute)
	for b.String() != want {
		select {
		case <-b.changed:
		case <-late:
			t.Fatalf("got %q, want %q", b.String(), want)
		}
	}
}

func newLog(t *testing.T) (string, *StreamWriter) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "0.log")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return path, NewWriter(f, &Buffers{}).Stream(Stdout)
}

func TestFollow(t *testing.T) {
	path, log := newLog(t)
	log.Write([]byte("one\ntwo\n"))
	out, ended := newSyncBuffer(), make(chan struct{})
	done := make(chan error)
	go func() {
		done <- Read(context.Background(), path, Options{Follow: true, TailLines: pointer[int64](1)}, out, ended)
	}()
	out.waitFor(t, "two\n")
	log.Write([]byte("three\nfo"))
	out.waitFor(t, "two\nthree\n")
	log.Write([]byte("ur\n"))
	out.waitFor(t, "two\nthree\nfour\n")
	log.Write([]byte("five"))
	log.Close()
	close(ended)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	out.waitFor(t, "two\nthree\nfour\nfive")
}

func TestFollowOfAnEndedContainerReadsAllAndReturns(t *testing.T) {
	path, log := newLog(t)
	log.Write([]byte(strings.Repeat("line\n", 100000)))
	ended := make(chan struct{})
	close(ended)
	var out bytes.Buffer
	if err := Read(context.Background(), path, Options{Follow: true}, &out, ended); err != nil {
		t.Fatal(err)
	}
	if out.Len() != 500000 {
		t.Errorf("%d bytes", out.Len())
	}
}

func TestFollowStopsAtTheLimit(t *testing.T) {
	path, log := newLog(t)
	log.Write([]byte("12345\n"))
	var out bytes.Buffer
	if err := Read(context.Background(), path, Options{Follow: true, LimitBytes: pointer[int64](4)}, &out, nil); err != nil || out.String() != "1234" {
		t.Errorf("got %q, %v", out.String(), err)
	}
}

func TestFollowEndsWithItsReader(t *testing.T) {
	path, log := newLog(t)
	t.Run("whose context is done", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(10*time.Millisecond, cancel)
		if err := Read(ctx, path, Options{Follow: true}, io.Discard, nil); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Run("who takes no more", func(t *testing.T) {
		r, w := io.Pipe()
		r.Close()
		log.Write([]byte("line\n"))
		if err := Read(context.Background(), path, Options{Follow: true}, w, nil); !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
	})
}

func TestFollowLosesNothing(t *testing.T) {
	path, log := newLog(t)
	const lines = 5000
	ended := make(chan struct{})
	var want strings.Builder
	for i := range lines {
		fmt.Fprintln(&want, i)
	}
	go func() {
		defer close(ended)
		for i := range lines {
			fmt.Fprintln(log, i)
		}
	}()
	var out bytes.Buffer
	if err := Read(context.Background(), path, Options{Follow: true}, &out, ended); err != nil {
		t.Fatal(err)
	}
	if out.String() != want.String() {
		t.Errorf("%d bytes came back of %d", out.Len(), want.Len())
	}
}

func TestMissingLog(t *testing.T) {
	if err := Read(context.Background(), filepath.Join(t.TempDir(), "none"), Options{}, io.Discard, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func BenchmarkRead(b *testing.B) {
	path := filepath.Join(b.TempDir(), "log")
	var log bytes.Buffer
	NewWriter(&log, &Buffers{}).Stream(Stdout).Write([]byte(strings.Repeat(strings.Repeat("x", 99)+"\n", 100000)))
	if err := os.WriteFile(path, log.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(log.Len()))
	for b.Loop() {
		if err := Read(context.Background(), path, Options{}, io.Discard, nil); err != nil {
			b.Fatal(err)
		}
	}
}
