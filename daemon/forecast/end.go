package forecast

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wire "github.com/jobd/jobd/api/forecast"
)

// enough is how many pods of a Job have to have succeeded for its own rate to say more than earlier runs.
const enough = 10

// Progress is how far a Job is.
type Progress struct {
	// Started is since when it runs; zero if it does not.
	Started time.Time
	// Paused is for how much of the time since then it was paused, without a pause that it is in.
	Paused time.Duration
	// Stands says that it is paused: nobody knows when it goes on.
	Stands bool
	// Completions is how many successes it needs, 0 if nobody knows, and Succeeded how many it has.
	Completions, Succeeded int
	// Deadline is when activeDeadlineSeconds ends it; zero for never.
	Deadline time.Time
	// Runs are earlier runs of the same name.
	Runs Runs
}

// forever is longer than anybody waits.
const forever = 100 * 365 * 24 * time.Hour

// End returns when a Job is expected to end; nil if nobody knows.
func End(p Progress, now time.Time) *wire.Expected {
	if p.Started.IsZero() || p.Stands {
		return nil
	}
	elapsed := max(0, now.Sub(p.Started)-p.Paused)
	var e *wire.Expected
	rate := func() {
		if left := p.Completions - p.Succeeded; p.Succeeded > 0 && left > 0 {
			if took := float64(elapsed) / float64(p.Succeeded) * float64(left); took < float64(forever) {
				e = expected(now.Add(time.Duration(took)), wire.Rate, p.Succeeded)
			}
		}
	}
	if p.Succeeded >= enough {
		rate()
	}
	if left, ok := p.Runs.Left(elapsed); e == nil && ok {
		e = expected(now.Add(left), wire.History, len(p.Runs))
	}
	if e == nil {
		rate()
	}
	if !p.Deadline.IsZero() && (e == nil || p.Deadline.Before(e.At.Time)) {
		e = expected(p.Deadline, wire.Deadline, 0)
	}
	return e
}

func expected(at time.Time, basis string, runs int) *wire.Expected {
	return &wire.Expected{At: metav1.NewTime(at.Truncate(time.Second)), Basis: basis, Runs: runs}
}
