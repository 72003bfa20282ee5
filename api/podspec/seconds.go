package podspec

import (
	"math"
	"time"
)

// Seconds returns a number of seconds as the API has them, where nothing bounds them but their type, as a duration. What
// no duration can hold becomes the longest one, of 292 years, instead of one below zero.
func Seconds(n int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Second)
	switch {
	case n > most:
		return math.MaxInt64
	case n < -most:
		return -math.MaxInt64
	}
	return time.Duration(n) * time.Second
}
