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

// A log that cannot be had is not asked for each second forever, as that of a node which is gone.
func TestABrokenLogWaits(t *testing.T) {
	l, pod, k, broken := newLogging(), key{kind: ofPod}, logKey{pod: "p"}, errors.New("broken")
	begin := func(wantDone, wantBegin bool) {
		t.Helper()
		if done, begin := l.begin(pod, k); done != wantDone || begin != wantBegin {
			t.Errorf("done %v, begin %v", done, begin)
		}
	}
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		begin(false, true)
		begin(false, false)
		if again := l.end(pod, k, false, broken); again != want {
			t.Errorf("again after %v, want %v", again, want)
		}
	}
	for range 100 {
		begin(false, true)
		if again := l.end(pod, k, false, broken); again > lastRetry {
			t.Errorf("again after %v", again)
		}
	}
	begin(false, true)
	l.goesOn(pod, k)
	if again := l.end(pod, k, false, broken); again != time.Second {
		t.Errorf("after it went on: again after %v", again)
	}
	begin(false, true)
	l.end(pod, k, true, nil)
	begin(true, false)
	l.forget(pod)
	if l.end(pod, k, true, nil); len(l.known) > 0 {
		t.Error("something is kept of a pod that is gone")
	}
}
