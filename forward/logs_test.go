package forward

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/jobd/jobd/api/clusters"
)

func TestSkipLines(t *testing.T) {
	const all = "2026-11-30T12:00:00Z a\n2026-11-30T12:00:01Z b\n2026-11-30T12:00:01Z c\n2026-11-30T12:00:01Z d\n2026-11-30T12:00:02Z e\n"
	second := now.Add(time.Second)
	for name, c := range map[string]struct {
		end  clusters.LogEnd
		from string
		want string
	}{
		"nothing is here":            {clusters.LogEnd{}, all, "abcde"},
		"one is here":                {clusters.LogEnd{Time: now, Lines: 1}, all, "bcde"},
		"two of one time are here":   {clusters.LogEnd{Time: second, Lines: 2}, all, "de"},
		"all are here":               {clusters.LogEnd{Time: now.Add(2 * time.Second), Lines: 1}, all, ""},
		"what is here is gone there": {clusters.LogEnd{Time: now.Add(-time.Second), Lines: 1}, all, "abcde"},
		"its end has no newline":     {clusters.LogEnd{Time: now, Lines: 1}, "2026-11-30T12:00:00Z a", ""},
	} {
		var got strings.Builder
		for line := range strings.Lines(string(skipLines([]byte(c.from), &c.end))) {
			got.WriteString(strings.TrimSpace(line[strings.Index(line, " "):]))
		}
		if got.String() != c.want {
			t.Errorf("%s: %q, want %q", name, got.String(), c.want)
		}
	}
}

func TestGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		var got []string
		over := make(chan error)
		go func() {
			over <- gather(t.Context(), r, func(lines []byte) error {
				got = append(got, string(lines))
				return nil
			})
		}()
		for _, s := range []string{"a\n", "b\n"} {
			_, _ = io.WriteString(w, s)
		}
		time.Sleep(time.Second)
		_, _ = io.WriteString(w, "c\n"+strings.Repeat("x", 100_000)+"\nend")
		_ = w.Close()
		if err := <-over; err != nil {
			t.Error(err)
		}
		if len(got) < 2 || got[0] != "a\nb\n" || strings.Join(got[1:], "") != "c\n"+strings.Repeat("x", 100_000)+"\nend" {
			t.Errorf("got %d: %.40q", len(got), got)
		}
		broken := errors.New("broken")
		if err := gather(t.Context(), iotest.ErrReader(broken), func([]byte) error { return nil }); !errors.Is(err, broken) {
			t.Errorf("of a broken log: %v", err)
		}
		if err := gather(t.Context(), strings.NewReader("a\n"), func([]byte) error { return broken }); !errors.Is(err, broken) {
			t.Errorf("of a log that cannot be kept: %v", err)
		}
	})
}
