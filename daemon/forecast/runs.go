// Package forecast says when a Job is expected to start and to end: by deadlines, by how long earlier runs of the same name took, and by
// how fast it has gone on so far.
//
// In come what is on the machine and what waits for it (node.Outlook), durations of earlier runs, and the status of a Job. Out come
// times, each with what it is based on (api/forecast). Everything here is a pure function, and decides nothing: it is computed when
// somebody asks.
package forecast

import (
	"slices"
	"time"
)

// Runs are how long earlier runs took.
type Runs []time.Duration

// Left returns how long a run that has taken some time already will take from now on: until the middle one of those that took longer.
// It is false if none did.
func (r Runs) Left(elapsed time.Duration) (time.Duration, bool) {
	var longer []time.Duration
	for _, d := range r {
		if d > elapsed {
			longer = append(longer, d)
		}
	}
	if len(longer) == 0 {
		return 0, false
	}
	slices.Sort(longer)
	return longer[len(longer)/2] - elapsed, true
}
