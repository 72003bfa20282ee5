package server

import (
	"testing"
	"time"
)

func TestHowLongOutputIsGathered(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		before time.Duration
		taken  int
		want   time.Duration
	}{
		"at first":                        {0, 100, 1 * ms},
		"little came":                     {1 * ms, gatherRoom / 10, 2 * ms},
		"little came in the longest time": {8 * ms, gatherRoom / 10, 8 * ms},
		"the pipe was about half full":    {4 * ms, gatherRoom / 3, 4 * ms},
		"the pipe was nearly full":        {4 * ms, gatherRoom, 2 * ms},
		"it was full in the least time":   {1 * ms, gatherRoom, 1 * ms},
	} {
		if got := gathering(c.before, c.taken); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
