package submit

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jobd/jobd/cmd/internal/progress"
)

func TestParsePrefix(t *testing.T) {
	index := 7
	at := time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)
	for line, want := range map[string]progress.Chunk{
		"[pod/x-7-abcde/c index=7 restart=2 stderr] 2026-01-02T03:04:05.0000006Z hello world": {
			Source: progress.Source{Pod: "x-7-abcde", Container: "c", Index: &index, Restart: 2, Stream: "stderr"}, Time: at,
			Text: []byte("hello world"),
		},
		"[pod/x/c stdout] 2026-01-02T03:04:05.0000006Z [pod/y/z restart=1 stdout] ": {
			Source: progress.Source{Pod: "x", Container: "c", Stream: "stdout"}, Time: at,
			Text: []byte("[pod/y/z restart=1 stdout] "),
		},
		"[pod/x/c stdout] no time": {
			Source: progress.Source{Pod: "x", Container: "c", Stream: "stdout"}, Text: []byte("no time"),
		},
		"[pod/x/c missing] 3 MB are missing": {
			Source: progress.Source{Pod: "x", Container: "c", Stream: "missing"}, Text: []byte("3 MB are missing"),
		},
		"the rest of a long line": {Text: []byte("the rest of a long line")},
	} {
		if got := parsePrefix([]byte(line)); fmt.Sprintf("%+v %s", show(got), got.Text) != fmt.Sprintf("%+v %s", show(want), want.Text) {
			t.Errorf("%s:\n got %+v\nwant %+v", line, show(got), show(want))
		}
	}
}

func show(c progress.Chunk) string {
	return fmt.Sprint(c.Prefix(), c.Time.UnixNano())
}

// A stream that breaks off anywhere and is opened again shows each line once, also where many lines have one time.
func TestLogsContinueWhereTheyBrokeOff(t *testing.T) {
	var all []string
	for i := range 40 {
		all = append(all, fmt.Sprintf("[pod/p%d/c stdout] 2026-01-02T03:04:0%d.5Z line %d\n", i%2, i/8, i))
	}
	whole := strings.Join(all, "")
	for cut := range len(whole) {
		if cut > 0 && whole[cut-1] != '\n' { // the server sends whole lines
			continue
		}
		var got []string
		take := shown{func(c progress.Chunk) { got = append(got, string(c.Text)) }, func() {}, &flow{}}
		marks := map[containerKey]mark{}
		for _, stream := range []string{whole[:cut], whole} {
			if err := readLines(strings.NewReader(stream), prefixParser(), maps.Clone(marks), marks, take); err != nil {
				t.Fatal(err)
			}
		}
		if len(got) != len(all) {
			t.Fatalf("broken off at %d: %d lines, want %d: %q", cut, len(got), len(all), got)
		}
	}
}

// A retry that is followed begins with what it prints itself.
func TestLogsOfEarlierAttemptsAreLeftOut(t *testing.T) {
	const stream = "[pod/a/c stdout] 2026-01-02T03:04:05Z first\nthe rest\n[pod/b/c attempt=2 stdout] 2026-01-02T03:05:05Z second\nits rest\n" +
		"[pod/c/c attempt=3 stdout] 2026-01-02T03:06:05Z third\n"
	for attempt, want := range map[int]string{1: "first the rest second its rest third", 2: "second its rest third", 3: "third"} {
		var got []string
		take := fromAttempt(attempt, func(c progress.Chunk) { got = append(got, string(c.Text)) })
		if err := readLines(strings.NewReader(stream), prefixParser(), nil, map[containerKey]mark{}, shown{take, func() {}, &flow{}}); err != nil {
			t.Fatal(err)
		}
		if said := strings.Join(got, " "); said != want {
			t.Errorf("attempt %d: %q, want %q", attempt, said, want)
		}
	}
}

func TestALongLineComesInPieces(t *testing.T) {
	long := strings.Repeat("x", 300<<10)
	var got strings.Builder
	begins, ends := 0, 0
	err := readLines(strings.NewReader("[pod/p/c stdout] "+long+"\nend"), parsePrefix, nil, map[containerKey]mark{},
		shown{func(c progress.Chunk) {
			got.Write(c.Text)
			if c.Begins {
				begins++
			}
			if c.Ends {
				ends++
			}
		}, func() {}, &flow{}})
	if err != nil || got.String() != long+"end" || begins != 2 || ends != 1 {
		t.Errorf("%d bytes, %d begin, %d end, %v", got.Len(), begins, ends, err)
	}
}

func FuzzParsePrefix(f *testing.F) {
	f.Add([]byte("[pod/x-7-abcde/c index=7 restart=2 stderr] 2026-01-02T03:04:05.0000006Z hello"))
	f.Fuzz(func(t *testing.T, line []byte) {
		if c := parsePrefix(line); !strings.HasSuffix(string(line), string(c.Text)) {
			t.Errorf("%q is not the end of %q", c.Text, line)
		}
	})
}

// Who looks at a log that stands still sees all of it that has come.
func TestLinesAreShownBeforeMoreIsWaitedFor(t *testing.T) {
	r, w := io.Pipe()
	var out bytes.Buffer
	d := progress.NewPlain(nil, &out, io.Discard, false)
	seen := make(chan string)
	flush := func() {
		d.Flush()
		seen <- out.String()
	}
	done := make(chan error)
	go func() {
		done <- readLines(r, prefixParser(), nil, map[containerKey]mark{}, shown{d.Log, flush, &flow{}})
	}()
	<-seen
	for _, want := range []string{"one\n", "one\ntwo\n", "one\ntwo\nthree\n"} {
		lines := strings.Fields(want)
		fmt.Fprintf(w, "[pod/p/c stdout] 2026-01-02T03:04:05.5Z %s\n", lines[len(lines)-1])
		if got := <-seen; got != want {
			t.Errorf("%q is shown, want %q", got, want)
		}
	}
	w.Close()
	<-seen
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func BenchmarkReadLines(b *testing.B) {
	var stream strings.Builder
	for i := range 10000 {
		fmt.Fprintf(&stream, "[pod/busybox-abcde-fghij/busybox stdout] 2026-01-02T03:04:05.%09dZ %d\n", i/100, i)
	}
	b.SetBytes(int64(stream.Len()))
	d := progress.NewPlain(nil, io.Discard, io.Discard, false)
	for b.Loop() {
		out := shown{d.Log, d.Flush, &flow{}}
		if err := readLines(strings.NewReader(stream.String()), prefixParser(), nil, map[containerKey]mark{}, out); err != nil {
			b.Fatal(err)
		}
	}
}
