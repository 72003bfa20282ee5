package jobset

import (
	"math"
	"testing"
	"time"
)

func TestNextAttempt(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for restarts, want := range map[int32]time.Duration{
		0: 0, 4: 0, 5: time.Second, 6: 2 * time.Second, 12: 128 * time.Second, 13: 256 * time.Second, 14: 5 * time.Minute, math.MaxInt32: 5 * time.Minute,
	} {
		if got := NextAttempt(restarts, began).Sub(began); got != want {
			t.Errorf("after %d restarts: %v, not %v", restarts, got, want)
		}
	}
}
