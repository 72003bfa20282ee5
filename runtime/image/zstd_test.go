package image

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// frame returns a frame of zstd of some blocks of 128 kB, four bytes each, with a window of a power of two.
func frame(exponent byte, blocks int) []byte {
	const block = 128 << 10
	b := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, (exponent - 10) << 3}
	for i := range blocks {
		header := block<<3 | 1<<1 // of one byte, repeated
		if i == blocks-1 {
			header |= 1
		}
		b = append(b, byte(header), byte(header>>8), byte(header>>16), 'a')
	}
	return b
}

// singleSegment is a frame whose window is its content.
func singleSegment(exponent byte, blocks int) []byte {
	b := frame(exponent, blocks)
	size := uint64(blocks) * 128 << 10
	begin := []byte{0x28, 0xb5, 0x2f, 0xfd, 0b11100000}
	for i := range 8 {
		begin = append(begin, byte(size>>(8*i)))
	}
	return append(begin, b[6:]...)
}

func TestWindows(t *testing.T) {
	skippable := []byte{0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4}
	for name, c := range map[string]struct {
		in    []byte
		size  int64
		taken bool
	}{
		"a usual one":                      {frame(23, 100), 100 * 128 << 10, true},
		"that of zstd --long":              {frame(27, 3000), 3000 * 128 << 10, true},
		"a larger one":                     {frame(28, 1), 0, false},
		"that of the report":               {frame(29, 4096), 0, false},
		"the largest":                      {frame(41, 1), 0, false},
		"a content of 100 MB":              {singleSegment(10, 800), 800 * 128 << 10, true},
		"a content of 1 GB":                {singleSegment(10, 8000), 0, false},
		"a large one after a usual one":    {append(frame(23, 1), frame(27, 1)...), 0, false},
		"a usual one after a large one":    {append(frame(27, 1), frame(23, 1)...), 2 * 128 << 10, true},
		"what is skipped, and a usual one": {append(bytes.Clone(skippable), frame(23, 1)...), 128 << 10, true},
		"what is skipped, and a large one": {append(bytes.Clone(skippable), frame(29, 1)...), 0, false},
		"no frame":                         {skippable, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := decompressed(t.Context(), bufio.NewReader(bytes.NewReader(c.in)))
			var n int64
			if err == nil {
				n, err = io.Copy(io.Discard, r)
				r.Close()
			}
			if c.taken && (err != nil || n != c.size) || !c.taken && !errors.Is(err, zstd.ErrWindowSizeExceeded) {
				t.Errorf("%d bytes, %v", n, err)
			}
			if err != nil && !strings.Contains(err.Error(), "128 MiB") {
				t.Error(err)
			}
		})
	}
}

// Only one stream at a time has a large window. One that waits ends with its pull.
func TestLargeWindowsAreFew(t *testing.T) {
	open := func(ctx context.Context) (io.ReadCloser, error) {
		return decompressed(ctx, bufio.NewReader(bytes.NewReader(frame(27, 1))))
	}
	first, err := open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := open(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a second one: %v", err)
	}
	if r, err := decompressed(ctx, bufio.NewReader(bytes.NewReader(frame(23, 1)))); err != nil {
		t.Errorf("a usual one: %v", err)
	} else {
		r.Close()
	}
	first.Close()
	r, err := open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
}
