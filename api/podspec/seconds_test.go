package podspec

import (
	"math"
	"testing"
	"time"
)

func TestSeconds(t *testing.T) {
	const most = int64(math.MaxInt64 / time.Second)
	for n, want := range map[int64]time.Duration{
		0: 0, 30: 30 * time.Second, -1: -time.Second, math.MaxInt64: math.MaxInt64, math.MinInt64: -math.MaxInt64,
		most: time.Duration(most) * time.Second, most + 1: math.MaxInt64,
	} {
		if got := Seconds(n); got != want {
			t.Errorf("%d: %v, want %v", n, got, want)
		}
	}
}
