package requests

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestLimitsAreLongEnoughAndNotMuchLonger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seconds := rapid.Int64Range(0, 100*365*24*3600).Draw(t, "seconds")
		l := LimitOf(seconds)
		if l == 0 || l.Seconds() < seconds || float64(l.Seconds()) > 1.1*float64(seconds)+1 {
			t.Fatalf("%d seconds become %d", seconds, l.Seconds())
		}
	})
	if LimitOf(math.MaxInt64) != 0 {
		t.Error("a time without end is a limit")
	}
}
