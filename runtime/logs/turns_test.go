package logs

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Whoever looks through a log does so in turns, as long as it may take and though none of it is wanted, and has none while it writes or
// waits.
func TestReadersTakeTurns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	const lines = 10_000
	if err := os.WriteFile(path, []byte(strings.Repeat("2026-01-02T12:00:00.000000001Z stdout F one\n", lines)), 0o600); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	close(ended)
	for name, o := range map[string]Options{
		"all of it":                    {},
		"nothing of it":                {SinceTime: time.Now()},
		"nothing of it, from the end":  {TailLines: pointer(int64(5)), Stream: "stderr"},
		"the second half":              {TailLines: pointer(int64(lines / 2))},
		"what is written from now on":  {Follow: true, TailLines: pointer(int64(0))},
		"all that is and will be":      {Follow: true},
		"what is of another stream":    {Follow: true, Stream: "stderr"},
		"an end that is reached early": {LimitBytes: pointer(int64(100_000))},
	} {
		mine, taken := false, 0
		o.Turn = func(context.Context) (func(), error) {
			if mine {
				t.Errorf("%s: a turn begins within another", name)
			}
			mine = true
			taken++
			return func() { mine = false }, nil
		}
		out := writerFunc(func(b []byte) (int, error) {
			if mine {
				t.Errorf("%s: it is written in a turn", name)
			}
			return len(b), nil
		})
		if err := Read(t.Context(), path, o, out, ended); err != nil || mine {
			t.Errorf("%s: %v, its turn goes on: %t", name, err, mine)
		}
		if taken == 0 || o.TailLines == nil && o.LimitBytes == nil && taken < lines/turnLines {
			t.Errorf("%s: read in %d turns", name, taken)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestAReaderWithoutATurn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	if err := os.WriteFile(path, []byte("2026-01-02T12:00:00.000000001Z stdout F one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("too many")
	turn := func(context.Context) (func(), error) { return nil, refused }
	for _, o := range []Options{{Turn: turn}, {Turn: turn, TailLines: pointer(int64(1))}} {
		var out bytes.Buffer
		if err := Read(t.Context(), path, o, &out, nil); !errors.Is(err, refused) || out.Len() > 0 {
			t.Errorf("%v, read %q", err, out.String())
		}
	}
}
