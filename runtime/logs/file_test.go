package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	f, err := OpenFile(path, Limit{MaxSize: 200, MaxFiles: 3})
	if err != nil {
		t.Fatal(err)
	}
	at := noon
	f.now = func() time.Time { return at }
	log := NewWriter(f, &Buffers{})
	log.now = f.now
	for i := range 20 { // 4 records of 48 bytes fit a file
		fmt.Fprintf(log.Stream(Stdout), "line %02d\n", i)
		at = at.Add(-1) // the clock goes backwards
	}
	if older, err := rotated(path); err != nil || len(older) != 2 {
		t.Errorf("%d older files, %v", len(older), err)
	}
	var out bytes.Buffer
	if err := Read(context.Background(), path, Options{}, &out, nil); err != nil ||
		!strings.HasSuffix(out.String(), "line 18\nline 19\n") || !strings.HasPrefix(out.String(), "line 08\n") {
		t.Errorf("%q, %v", out.String(), err)
	}
	out.Reset()
	if err := Read(context.Background(), path, Options{TailLines: pointer[int64](5)}, &out, nil); err != nil ||
		out.String() != "line 15\nline 16\nline 17\nline 18\nline 19\n" {
		t.Errorf("tail: %q, %v", out.String(), err)
	}
	if err := Read(context.Background(), path+"x", Options{}, &out, nil); !errors.Is(err, fs.ErrNotExist) || Exists(path+"x") || !Exists(path) {
		t.Error(err)
	}
}

// TestEveryLineOnce lets a follower read while a log is written, rotated, and its writer replaced.
func TestEveryLineOnce(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		path := filepath.Join(dir, fmt.Sprint(n), "0.log")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		limit := Limit{MaxSize: rapid.Int64Range(50, 2000).Draw(t, "size"), MaxFiles: 1000}
		open := func() *File {
			f, err := OpenFile(path, limit)
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		f := open()
		ended, done := make(chan struct{}), make(chan error, 1)
		var followed, want bytes.Buffer
		following := func() {
			go func() { done <- Read(context.Background(), path, Options{Follow: true}, &followed, ended) }()
		}
		begin := rapid.IntRange(0, 20).Draw(t, "when the follower comes")
		for i := range 20 {
			if i == begin {
				following()
			}
			line := fmt.Sprintf("%d%s\n", i, strings.Repeat("x", rapid.IntRange(0, 300).Draw(t, "length")))
			want.WriteString(line)
			fmt.Fprint(NewWriter(f, &Buffers{}).Stream(Stdout), line)
			if rapid.IntRange(0, 5).Draw(t, "restart") == 0 {
				f.Close()
				f = open()
			}
			var out bytes.Buffer
			if err := Read(context.Background(), path, Options{}, &out, nil); err != nil || out.String() != want.String() {
				t.Fatalf("read %q, want %q: %v", out.String(), want.String(), err)
			}
		}
		if begin == 20 {
			following()
		}
		f.Close()
		close(ended)
		if err := <-done; err != nil || followed.String() != want.String() {
			t.Fatalf("followed %q, want %q: %v", followed.String(), want.String(), err)
		}
		tail := rapid.Int64Range(0, 25).Draw(t, "tail")
		var out bytes.Buffer
		lines := strings.SplitAfter(strings.TrimSuffix(want.String(), "\n"), "\n")
		if err := Read(context.Background(), path, Options{TailLines: &tail}, &out, nil); err != nil ||
			strings.TrimSuffix(out.String(), "\n") != strings.Join(lines[max(0, len(lines)-int(tail)):], "") {
			t.Fatalf("tail %d is %q: %v", tail, out.String(), err)
		}
	})
}

// A follower that is slower than its container is told how much it has missed, and where; also one that comes late.
func TestMissedWhatWasRotatedAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	at := noon
	open := func() (*File, func(from, to int)) {
		f, err := OpenFile(path, Limit{MaxSize: 200, MaxFiles: 2})
		if err != nil {
			t.Fatal(err)
		}
		f.now = func() time.Time { return at }
		log := NewWriter(f, &Buffers{})
		log.now = f.now
		return f, func(from, to int) {
			for i := from; i < to; i++ { // 4 records of 48 bytes fit a file
				at = at.Add(time.Second)
				fmt.Fprintf(log.Stream(Stdout), "line %02d\n", i)
			}
		}
	}
	f, write := open()
	write(0, 2)
	missing := func(bytes int64, before time.Time) string {
		if before.IsZero() {
			return fmt.Sprintf("%d bytes missing at the beginning", bytes)
		}
		return fmt.Sprintf("%d bytes missing after %v", bytes, before.Sub(noon))
	}
	r, w := io.Pipe()
	ended, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- Read(context.Background(), path, Options{Follow: true, Missing: missing}, w, ended)
		w.Close()
	}()
	// It stands still until somebody takes what it has read.
	buffer := make([]byte, 100)
	n, err := r.Read(buffer[:1])
	if err != nil || n != 1 {
		t.Fatal(n, err)
	}
	write(2, 9)
	f.Close()
	f, write = open() // as after a restart of the shard
	write(9, 18)
	f.Close()
	close(ended)
	rest, err := io.ReadAll(r)
	if err := errors.Join(err, <-done); err != nil {
		t.Fatal(err)
	}
	all := string(buffer[:1]) + string(rest)
	want := "line 00\nline 01\nline 02\nline 03\n384 bytes missing after 4s\n" + lines(12, 18)
	if all != want {
		t.Errorf("followed:\n%s\nwant:\n%s", all, want)
	}
	var late bytes.Buffer
	if err := Read(context.Background(), path, Options{Missing: missing}, &late, nil); err != nil {
		t.Fatal(err)
	}
	if want := "576 bytes missing at the beginning\n" + lines(12, 18); late.String() != want {
		t.Errorf("read:\n%s\nwant:\n%s", late.String(), want)
	}
	late.Reset()
	err = Read(context.Background(), path, Options{Missing: missing, TailLines: pointer[int64](1)}, &late, nil)
	if err != nil || late.String() != "line 17\n" {
		t.Errorf("whoever wants one line misses nothing: %q, %v", late.String(), err)
	}
}

func lines(from, to int) string {
	var all strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&all, "line %02d\n", i)
	}
	return all.String()
}
