package schedule

import (
	"errors"
	"slices"
	"time"
)

// Union is the times of several schedules together. A time that several of them have counts once.
type Union []*Schedule

// ParseUnion returns the times of all these schedules. An @every can only be the only one: its times are counted from the
// last one that was served, which may be that of another schedule.
func ParseUnion(texts ...string) (Union, error) {
	var u Union
	for _, text := range texts {
		s, err := Parse(text)
		if err != nil {
			return nil, err
		}
		if s.Every() > 0 && len(texts) > 1 {
			return nil, errors.New("@every cannot stand beside other schedules: its times are counted from the last run")
		}
		u = append(u, s)
	}
	return u, nil
}

// Every returns the time between two times of an @every schedule; 0 for any other.
func (u Union) Every() time.Duration {
	if len(u) == 1 {
		return u[0].Every()
	}
	return 0
}

// Next returns the first time after t; zero if none comes within five years.
func (u Union) Next(t time.Time) (first time.Time) {
	for _, s := range u {
		if at := s.Next(t); first.IsZero() || !at.IsZero() && at.Before(first) {
			first = at
		}
	}
	return first
}

// Last returns the latest time that is after start and not after now, zero for none. The times of @every are counted from
// start.
func (u Union) Last(start, now time.Time) (latest time.Time) {
	for _, s := range u {
		if at := s.last(start, now); at.After(latest) {
			latest = at
		}
	}
	return latest
}

// Newest returns the latest n times, in their order, that are after start, not before from and not after now; more says that
// there are others before them. The times of @every are counted from start. It takes a number of steps that depends on n, and not on
// how long ago start is.
func (u Union) Newest(start, from, now time.Time, n int) (times []time.Time, more bool) {
	if u.Every() > 0 {
		return u.newestBeats(start, from, now, n)
	}
	if begin := from.Add(-time.Nanosecond).In(start.Location()); begin.After(start) {
		start = begin
	}
	latest := make([]time.Time, len(u)) // of each schedule, before those that are in times
	for i, s := range u {
		latest[i] = s.last(start, now)
	}
	for {
		var at time.Time
		for _, t := range latest {
			if t.After(at) {
				at = t
			}
		}
		if at.IsZero() || len(times) == n {
			slices.Reverse(times)
			return times, !at.IsZero()
		}
		times = append(times, at)
		for i, t := range latest {
			if t.Equal(at) {
				latest[i] = u[i].previous(start, at)
			}
		}
	}
}

// newestBeats is Newest of @every.
func (u Union) newestBeats(start, from, now time.Time, n int) (times []time.Time, more bool) {
	at := u.Last(start, now)
	for ; !at.IsZero() && at.After(start) && !at.Before(from); at = at.Add(-u.Every()) {
		if len(times) == n {
			more = true
			break
		}
		times = append(times, at)
	}
	slices.Reverse(times)
	return times, more
}

// last returns the latest time that is after start and not after now, zero for none. The times of @every are counted from
// start.
func (s *Schedule) last(start, now time.Time) time.Time {
	if due := s.Next(start); due.IsZero() || due.After(now) {
		return time.Time{}
	}
	if s.every > 0 {
		every := int64(s.every / time.Second)
		return time.Unix(start.Unix()+(now.Unix()-start.Unix())/every*every, 0).In(start.Location())
	}
	// The next time after lo is not after now, the one after hi is.
	lo, hi := start, now
	for hi.Sub(lo) > time.Second {
		mid := lo.Add(hi.Sub(lo) / 2)
		if due := s.Next(mid); due.IsZero() || due.After(now) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return s.Next(lo)
}

// farBack is as far as a search for a previous time goes by doubling its steps.
const farBack = 100 * 366 * 24 * time.Hour

// previous returns the latest time that is after start and before t, which is a whole second; zero for none. It is found near t first,
// since the times of most schedules are close to each other.
func (s *Schedule) previous(start, t time.Time) time.Time {
	until := t.Add(-time.Second)
	for step := time.Minute; step < farBack; step *= 2 {
		lo := until.Add(-step)
		if !lo.After(start) {
			break
		}
		if at := s.last(lo, until); !at.IsZero() {
			return at
		}
	}
	return s.last(start, until)
}
