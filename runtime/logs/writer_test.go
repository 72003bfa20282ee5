package logs

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 5, time.UTC)

func newTestWriter(out *bytes.Buffer) *Writer {
	w := NewWriter(out, &Buffers{})
	w.now = func() time.Time { return noon }
	return w
}

const stamp = "2026-01-02T12:00:00.000000005Z "

func TestWriter(t *testing.T) {
	long := strings.Repeat("x", maxRecord)
	for name, c := range map[string]struct {
		pieces []string
		want   string
	}{
		"a line is a full record":                   {[]string{"hello\n"}, stamp + "stdout F hello\n"},
		"an empty line is kept":                     {[]string{"\n\n"}, stamp + "stdout F \n" + stamp + "stdout F \n"},
		"a line that comes in pieces is one record": {[]string{"he", "ll", "o\nwor"}, stamp + "stdout F hello\n" + stamp + "stdout P wor\n"},
		"the end without a newline is partial":      {[]string{"hello"}, stamp + "stdout P hello\n"},
		"a line as long as a record is one record":  {[]string{long + "\n"}, stamp + "stdout F " + long + "\n"},
		"a longer line is split":                    {[]string{long + "y\n"}, stamp + "stdout P " + long + "\n" + stamp + "stdout F y\n"},
		"a longer line in pieces is split just so":  {[]string{long[:9], long[9:], "y\n"}, stamp + "stdout P " + long + "\n" + stamp + "stdout F y\n"},
		"bytes that are no text pass":               {[]string{"\x00\xff\r\n"}, stamp + "stdout F \x00\xff\r\n"},
		"nothing written leaves nothing":            {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			s := newTestWriter(&out).Stream(Stdout)
			for _, p := range c.pieces {
				if n, err := s.Write([]byte(p)); n != len(p) || err != nil {
					t.Fatalf("Write = %d, %v", n, err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if out.String() != c.want {
				t.Errorf("got  %q\nwant %q", out.String(), c.want)
			}
		})
	}
}

func TestStreamsDoNotTearEachOthersLines(t *testing.T) {
	var out bytes.Buffer
	w := newTestWriter(&out)
	stdout, stderr := w.Stream(Stdout), w.Stream(Stderr)
	stdout.Write([]byte("one "))
	stderr.Write([]byte("oops\n"))
	stdout.Write([]byte("line\n"))
	if want := stamp + "stderr F oops\n" + stamp + "stdout F one line\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestPieceIsOneWrite(t *testing.T) {
	var out countingWriter
	s := NewWriter(&out, &Buffers{}).Stream(Stdout)
	s.Write([]byte(strings.Repeat("some text\n", 1000)))
	if out.writes != 1 {
		t.Errorf("%d writes", out.writes)
	}
}

func TestLargePieceIsWrittenInLargeParts(t *testing.T) {
	var out countingWriter
	s := NewWriter(&out, &Buffers{}).Stream(Stdout)
	s.Write([]byte(strings.Repeat(strings.Repeat("x", 70)+"\n", LargeBuffer/71)))
	if out.writes != 2 {
		t.Errorf("%d writes", out.writes)
	}
}

type countingWriter struct{ writes int }

func (w *countingWriter) Write(b []byte) (int, error) { w.writes++; return len(b), nil }

// fullDisk takes so many bytes and no more, until it is emptied.
type fullDisk struct {
	bytes.Buffer
	space int
}

var errFull = errors.New("no space left")

func (d *fullDisk) Write(b []byte) (int, error) {
	n := min(d.space, len(b))
	d.space -= n
	d.Buffer.Write(b[:n])
	if n < len(b) {
		return n, errFull
	}
	return n, nil
}

func TestLogIsReadableAfterADiskWasFull(t *testing.T) {
	disk := &fullDisk{space: 50}
	w := NewWriter(disk, &Buffers{})
	w.now = func() time.Time { return noon }
	s := w.Stream(Stdout)
	for range 3 {
		if _, err := s.Write([]byte("something that gets cut\n")); !errors.Is(err, errFull) {
			t.Fatalf("error is %v", err)
		}
	}
	disk.space = 1000
	if _, err := s.Write([]byte("fine again\n")); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(disk.String(), "\n")
	if got := lines[len(lines)-2]; got != stamp+"stdout F fine again" {
		t.Errorf("last record is %q", got)
	}
}

func TestWhatWasWrittenComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var out bytes.Buffer
		w := newTestWriter(&out)
		streams := map[Stream]*StreamWriter{Stdout: w.Stream(Stdout), Stderr: w.Stream(Stderr)}
		wrote := map[Stream]*bytes.Buffer{Stdout: {}, Stderr: {}}
		piece := rapid.OneOf(
			rapid.SliceOfN(rapid.Byte(), 0, 100),
			rapid.Map(
				rapid.SliceOf(rapid.SampledFrom([]string{"a", "\n", " P ", "long", "\r\n"})),
				func(p []string) []byte { return []byte(strings.Join(p, "")) },
			),
			rapid.Map(rapid.IntRange(maxRecord-2, 3*maxRecord), func(n int) []byte { return bytes.Repeat([]byte{'x'}, n) }),
		)
		for range rapid.IntRange(0, 12).Draw(t, "pieces") {
			s := rapid.SampledFrom([]Stream{Stdout, Stderr}).Draw(t, "stream")
			p := piece.Draw(t, "piece")
			if _, err := streams[s].Write(p); err != nil {
				t.Fatal(err)
			}
			wrote[s].Write(p)
		}
		for _, s := range streams {
			s.Close()
		}
		for s, want := range wrote {
			got, err := readAll(out.Bytes(), Options{Stream: s})
			if err != nil || !bytes.Equal(got, want.Bytes()) {
				t.Fatalf("%s came back as %q, was %q (%v)", s, got, want.Bytes(), err)
			}
		}
	})
}

func BenchmarkWriter(b *testing.B) {
	for name, line := range map[string]string{
		"lines of 10 bytes":  strings.Repeat("123456789\n", 6553),
		"lines of 100 bytes": strings.Repeat(strings.Repeat("x", 99)+"\n", 655),
	} {
		b.Run(name, func(b *testing.B) {
			s := NewWriter(&countingWriter{}, &Buffers{}).Stream(Stdout)
			piece := []byte(line)
			b.SetBytes(int64(len(piece)))
			b.ReportAllocs()
			for b.Loop() {
				s.Write(piece)
			}
		})
	}
}
