package cron

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // CronJobSpec.TimeZone means the same on machines that have no time zones of their own

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
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

// last returns the latest time of a schedule that is after start and not after now, zero for none. The times of @every
// are counted from start.
func last(s cron.Schedule, start, now time.Time) time.Time {
	if due := s.Next(start); due.IsZero() || due.After(now) {
		return time.Time{}
	}
	if every, ok := s.(cron.ConstantDelaySchedule); ok {
		start = start.Truncate(time.Second)
		return start.Add(now.Sub(start) / every.Delay * every.Delay)
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
func many(s cron.Schedule, start, now time.Time) bool {
	if every, ok := s.(cron.ConstantDelaySchedule); ok {
		return now.Sub(start)/every.Delay > manyMissed
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
