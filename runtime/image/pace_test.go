package image

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestPace(t *testing.T) {
	for name, c := range map[string]struct {
		n     int           // bytes of each read
		every time.Duration // that a read takes
		for_  time.Duration
		slow  bool
	}{
		"a byte every three seconds":              {1, 3 * time.Second, time.Hour, true},
		"a byte every three seconds for a while":  {1, 3 * time.Second, 4 * time.Minute, false},
		"a line of 100 kB/s with fifty downloads": {2000, time.Second, 60 * time.Hour, false},
		"bursts":       {400_000, 4 * time.Minute, 60 * time.Hour, false},
		"small bursts": {20_000, 50 * time.Second, time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPace(time.Minute)
			var err error
			for at := time.Duration(0); at < c.for_ && err == nil; at += c.every {
				err = p.add(c.n, c.every)
			}
			if _, silent := errors.AsType[*silence](err); silent != c.slow {
				t.Errorf("got %v", err)
			}
		})
	}
}

// Whoever sends enough in every second is never too slow, and whoever never does is found out in time.
func TestPaceIsThatOfAllReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fast := rapid.Bool().Draw(t, "fast")
		p := newPace(time.Minute)
		var total time.Duration
		for range 2000 {
			waited := time.Duration(rapid.IntRange(1, 60_000).Draw(t, "waited")) * time.Millisecond
			least := leastRate * int(waited.Milliseconds()) / 1000
			n := least - 1
			if fast {
				n = least + 1
			}
			total += waited
			err := p.add(max(n, 0), waited)
			switch {
			case fast && err != nil:
				t.Fatal(err)
			case !fast && err == nil && total > 6*time.Minute:
				t.Fatalf("nothing is said in %s", total)
			case err != nil:
				return
			}
			if total > 20*time.Minute {
				return
			}
		}
	})
}
