package requests

import (
	"math"
	"time"
)

// Limit is how long a pod may run, by its deadlines and the time that it has to end: the least of a row of durations that is long
// enough, each a ninth longer than the one before. 0 is for ever. Pods with the same one wait in one line.
type Limit uint8

// limitsPerDoubling is how many of them there are from a duration to its double.
const limitsPerDoubling = 8

// LimitOf returns the limit for a number of seconds.
func LimitOf(seconds int64) Limit {
	if seconds <= 1 {
		return 1
	}
	l := math.Ceil(math.Log2(float64(seconds))*limitsPerDoubling - 1e-9)
	if l >= math.MaxUint8 {
		return 0 // longer than a lifetime
	}
	return Limit(l) + 1
}

// Seconds returns the duration in seconds.
func (l Limit) Seconds() int64 {
	return int64(math.Ceil(math.Exp2(float64(l-1)/limitsPerDoubling) - 1e-6))
}

// Duration returns how long a limit is, 0 for ever.
func (l Limit) Duration() time.Duration {
	if l == 0 {
		return 0
	}
	return time.Duration(min(l.Seconds(), int64(1<<62)/int64(time.Second))) * time.Second
}
