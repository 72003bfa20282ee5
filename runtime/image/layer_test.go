package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"pgregory.net/rapid"
)

// archiveOf returns an archive as it is written, entry by entry. Nothing holds all of it.
func archiveOf(after int64, entries func(add func(tar.Header))) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		archive := tar.NewWriter(w)
		failed := false
		entries(func(h tar.Header) {
			if failed {
				return
			}
			if h.Typeflag == 0 {
				h.Typeflag = tar.TypeDir
			}
			failed = archive.WriteHeader(&h) != nil
			if h.Size > 0 && !failed {
				_, err := io.CopyN(archive, zeros{}, h.Size)
				failed = err != nil
			}
		})
		err := archive.Close()
		if err == nil {
			_, err = io.CopyN(w, zeros{}, after)
		}
		w.CloseWithError(err)
	}()
	return r
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestLayersAreBounded(t *testing.T) {
	long := strings.Repeat("d", 200)
	for name, c := range map[string]struct {
		after   int64
		room    int64 // 0 for any
		entries func(add func(tar.Header))
		want    string // empty if it is taken
	}{
		"an image of a system": {10240, 0, func(add func(tar.Header)) {
			add(tar.Header{Name: "lib", Typeflag: tar.TypeSymlink, Linkname: "usr/lib"})
			for i := range 5_000 {
				add(tar.Header{Name: fmt.Sprintf("usr/lib/%d/", i)})
				add(tar.Header{Name: fmt.Sprintf("usr/lib/%d/%s", i, long), Typeflag: tar.TypeReg, Size: 100})
			}
		}, ""},
		"a large file": {0, 0, func(add func(tar.Header)) { add(tar.Header{Name: "f", Typeflag: tar.TypeReg, Size: 2 << 30}) }, ""},
		"directories with a megabyte of records": {0, 0, func(add func(tar.Header)) {
			for range 30 {
				add(tar.Header{Name: "a/", PAXRecords: map[string]string{"comment": strings.Repeat("a", 1_040_000)}})
			}
		}, "too large entries"},
		"files with a megabyte of records": {0, 0, func(add func(tar.Header)) { // of which nothing stays
			for range 30 {
				add(tar.Header{Name: "a", Typeflag: tar.TypeReg, PAXRecords: map[string]string{"X.comment": strings.Repeat("a", 1_000_000)}})
			}
		}, ""},
		"one directory many times": {0, 0, func(add func(tar.Header)) {
			for range 20_000 {
				add(tar.Header{Name: "a/"})
			}
		}, "too many"},
		"hard links behind a link": {0, 0, func(add func(tar.Header)) {
			add(tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: strings.Repeat("deep/", 20)})
			for i := range 5_000 {
				add(tar.Header{Name: fmt.Sprintf("l/%d", i), Typeflag: tar.TypeLink, Linkname: "f"})
			}
		}, "too many"},
		"hard links behind a hard link to a link": {0, 0, func(add func(tar.Header)) {
			add(tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: strings.Repeat("deep/", 20)})
			add(tar.Header{Name: "m", Typeflag: tar.TypeLink, Linkname: "l"})
			for i := range 5_000 {
				add(tar.Header{Name: fmt.Sprintf("./m//%d", i), Typeflag: tar.TypeLink, Linkname: "f"})
			}
		}, "too many"},
		"a file larger than the disk": {0, 1 << 20, func(add func(tar.Header)) {
			add(tar.Header{Name: "f", Typeflag: tar.TypeReg, Size: 3 << 30})
		}, "fill the disk"},
		"zeros after the end": {100 << 20, 0, func(func(tar.Header)) {}, "after the end"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancelCause(t.Context())
			defer end(nil)
			if c.room > 0 {
				ctx = context.WithValue(ctx, roomKey{}, newRoom(c.room, nil, end))
			}
			l := newLayerOf(ctx, archiveOf(c.after, c.entries), 1<<20, 8<<20)
			n, err := io.Copy(io.Discard, l)
			if closeErr := l.Close(); closeErr != nil {
				t.Error(closeErr)
			}
			switch {
			case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("after %d bytes: %v", n, err)
			case c.room > 0 && !errors.Is(context.Cause(ctx), errNoRoom):
				t.Errorf("it ends with %v", context.Cause(ctx))
			case c.want != "" && c.room == 0 && !errdefs.IsInvalidArgument(err):
				t.Errorf("got %v", err)
			}
		})
	}
}

// Of layers with very many entries one is unpacked at a time, and one that waits ends with its pull.
func TestLargeLayersAreOneAtATime(t *testing.T) {
	many := func() io.ReadCloser {
		return archiveOf(0, func(add func(tar.Header)) {
			for i := range 5_000 {
				add(tar.Header{Name: fmt.Sprintf("%d/", i)})
			}
		})
	}
	first := newLayerOf(t.Context(), many(), 1<<20, 8<<20)
	if _, err := io.Copy(io.Discard, first); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	second := newLayerOf(ctx, many(), 1<<20, 8<<20)
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, second)
		done <- err
	}()
	few := newLayerOf(t.Context(), archiveOf(0, func(add func(tar.Header)) { add(tar.Header{Name: "a/"}) }), 1<<20, 8<<20)
	if _, err := io.Copy(io.Discard, few); err != nil {
		t.Errorf("one of few entries: %v", err)
	}
	few.Close()
	select {
	case err := <-done:
		t.Fatalf("a second one does not wait: %v", err)
	default:
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	second.Close()
	first.Close()
	third := newLayerOf(t.Context(), many(), 1<<20, 8<<20)
	if _, err := io.Copy(io.Discard, third); err != nil {
		t.Errorf("after the first one: %v", err)
	}
	third.Close()
}

// A layer passes what is in it as it is, however it is read.
func TestLayersAreTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for range rapid.IntRange(0, 20).Draw(t, "entries") {
			content := rapid.SliceOfN(rapid.Byte(), 0, 3000).Draw(t, "content")
			name := rapid.StringMatching(`[a-z/]{1,300}[a-z]`).Draw(t, "name")
			if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(content)), Mode: 0o644}); err != nil {
				t.Fatal(err)
			}
			_, _ = w.Write(content)
		}
		if rapid.Bool().Draw(t, "whole") {
			_ = w.Close()
			b.Write(make([]byte, rapid.IntRange(0, 20_000).Draw(t, "padding")))
		}
		l := newLayer(context.Background(), io.NopCloser(bytes.NewReader(b.Bytes())))
		defer l.Close()
		var got []byte
		for {
			p := make([]byte, rapid.IntRange(1, 5000).Draw(t, "read"))
			n, err := l.Read(p)
			got = append(got, p[:n]...)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got, b.Bytes()) {
			t.Fatalf("%d bytes of %d", len(got), b.Len())
		}
	})
}

func TestRoomOfALayer(t *testing.T) {
	for _, bytes := range []int64{0, 1 << 30, math.MaxInt64} {
		if r := newRoom(bytes, nil, nil); r.unpacked <= 0 || r.unpacked < bytes/2 {
			t.Errorf("of %d bytes: %d", bytes, r.unpacked)
		}
	}
}
