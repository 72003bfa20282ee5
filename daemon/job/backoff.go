package job

import "time"

// backoffUntil returns the time before which no pod may be created, zero for none. The delay is doubled with each
// failure since the last success, and counts from the end of the last failed pod: when that was observed does not
// matter.
func (r *Record) backoffUntil(s Settings) time.Time {
	n := len(r.backoff.Failures)
	if n == 0 || r.spec.perIndex >= 0 {
		return time.Time{}
	}
	return time.Unix(r.backoff.Failures[n-1], 0).Add(r.delay(n, s))
}

// delay returns the back-off after n failures in a row.
func (r *Record) delay(n int, s Settings) time.Duration {
	base, limit := s.BackoffBase, s.BackoffCap
	if r.spec.backoffBase > 0 {
		base = r.spec.backoffBase
	}
	if r.spec.backoffCap > 0 {
		limit = r.spec.backoffCap
	}
	d := base
	for ; n > 1 && d < limit; n-- {
		d *= 2
	}
	return min(d, limit)
}
