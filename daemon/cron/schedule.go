package cron

import (
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/jobd/jobd/api/schedule"
)

// manyMissed is the number of missed starts above which something is taken to be wrong.
const manyMissed = 100

// scheduleOf returns CronJobSpec.Schedule as it is to be parsed: in CronJobSpec.TimeZone, or in the zone of the machine
// if there is none.
func scheduleOf(spec *batchv1.CronJobSpec) string {
	if spec.TimeZone == nil || strings.Contains(spec.Schedule, "TZ") {
		return spec.Schedule
	}
	return "TZ=" + *spec.TimeZone + " " + spec.Schedule
}

// from returns the time after which the next time of a CronJob's schedule is looked for.
func from(cj *batchv1.CronJob) time.Time {
	if last := cj.Status.LastScheduleTime; last != nil {
		return last.Time
	}
	return cj.CreationTimestamp.Time
}

// due returns the latest time of a CronJob's schedule that is not after now and for which no Job has been started; zero for
// none.
func due(s *schedule.Schedule, cj *batchv1.CronJob, now time.Time) time.Time {
	at := last(s, from(cj), now)
	if served(cj, at) {
		return time.Time{}
	}
	return at
}

// served reports whether a time is in the minute for which the last Job was started. The name of a Job contains the minute,
// so there is one Job a minute at most, which only matters to @every.
func served(cj *batchv1.CronJob, at time.Time) bool {
	last := cj.Status.LastScheduleTime
	return last != nil && !at.IsZero() && minute(at) == minute(last.Time)
}

func minute(t time.Time) int64 { return t.Unix() / 60 }

// next returns the first time of a CronJob's schedule after t for which a Job will be started; zero if none comes within
// five years.
func next(s *schedule.Schedule, cj *batchv1.CronJob, t time.Time) time.Time {
	at := s.Next(t)
	for served(cj, at) { // no more than 60 times, of @every 1s
		at = s.Next(at)
	}
	return at
}

// last returns the latest time of a schedule that is after start and not after now, zero for none. The times of @every
// are counted from start.
func last(s *schedule.Schedule, start, now time.Time) time.Time {
	if due := s.Next(start); due.IsZero() || due.After(now) {
		return time.Time{}
	}
	if s.Every() > 0 {
		every := int64(s.Every() / time.Second)
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

// many reports whether a schedule has more than manyMissed times after start and not after now.
func many(s *schedule.Schedule, start, now time.Time) bool {
	if s.Every() > 0 {
		return (now.Unix()-start.Unix())/int64(s.Every()/time.Second) > manyMissed
	}
	n := 0
	for at := s.Next(start); !at.IsZero() && !at.After(now) && n <= manyMissed; at = s.Next(at) {
		n++
	}
	return n > manyMissed
}

// zone returns the time zone in which the times of a CronJob are shown.
func zone(spec *batchv1.CronJobSpec) (*time.Location, error) {
	if spec.TimeZone == nil {
		return time.UTC, nil
	}
	l, err := time.LoadLocation(*spec.TimeZone)
	if err != nil {
		return nil, fmt.Errorf("invalid timeZone: %q: %w", *spec.TimeZone, err)
	}
	return l, nil
}
