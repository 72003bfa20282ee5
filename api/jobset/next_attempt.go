package jobset

import "time"

const (
	// promptRestarts is how many attempts follow the one before at once. From then on an attempt takes at least firstInterval, twice as long
	// with each further one, and longestInterval at most.
	promptRestarts  = 5
	firstInterval   = time.Second
	longestInterval = 5 * time.Minute
)

// NextAttempt returns when the attempt after restarts others and one that has begun at a time may begin, if a Job of that fails. Only
// attempts that fail soon are put off, else they would follow each other without pause; a cluster does not wait.
func NextAttempt(restarts int32, began time.Time) time.Time {
	n := restarts - promptRestarts
	if n < 0 {
		return began
	}
	return began.Add(min(longestInterval, firstInterval<<min(n, 20)))
}
