// Package schedule says when a CronJob's schedule is due.
//
// In comes the text of spec.schedule. Out come the times that a cluster would compute, in a bounded number of steps,
// whatever the schedule, its time zone and the current time are. Nothing else may use the library that parses it.
package schedule

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // CronJobSpec.TimeZone means the same on machines that have no time zones of their own

	"github.com/robfig/cron/v3"
)

// years is how far ahead a time is looked for.
const years = 5

// Schedule is what a text means. It may be used by several goroutines at a time.
type Schedule struct {
	times *cron.SpecSchedule // nil: @every
	every time.Duration
}

// Parse returns what a schedule means: five fields or a macro, behind TZ=ZONE or CRON_TZ=ZONE and a space if it has a time
// zone of its own.
func Parse(text string) (*Schedule, error) {
	for _, prefix := range []string{"TZ=", "CRON_TZ="} {
		if zone, ok := strings.CutPrefix(text, prefix); ok && !strings.Contains(zone, " ") {
			return nil, fmt.Errorf("no schedule follows the time zone: %s", text)
		}
	}
	parsed, err := cron.ParseStandard(text)
	if err != nil {
		return nil, err
	}
	switch s := parsed.(type) {
	case *cron.SpecSchedule:
		return &Schedule{times: s}, nil
	case cron.ConstantDelaySchedule:
		return &Schedule{every: s.Delay}, nil
	}
	return nil, fmt.Errorf("unrecognized schedule: %s", text)
}

// Every returns the time between two times of an @every schedule, in whole seconds and at least one; 0 for any other.
func (s *Schedule) Every() time.Duration { return s.every }

// Next returns the first time after t; zero if none comes within five years.
//
// The library finds it, unless it would not come to an end. It goes from midnight to midnight, and stays where it is before
// a day that a time zone leaves out, as Pacific/Apia did with 2011-12-30. Around a midnight that comes twice it may return
// a time that is past.
func (s *Schedule) Next(t time.Time) time.Time {
	if s.times == nil {
		return t.Add(s.every - time.Duration(t.Nanosecond()))
	}
	if s.never() {
		return time.Time{}
	}
	in := s.times.Location
	if in == time.Local { // the schedule has none, and that of the time counts
		in = t.Location()
	}
	if !jumps(t.In(in)) {
		if next := s.times.Next(t); next.IsZero() || next.After(t) {
			return next
		}
	}
	if next := s.walk(t.In(in)); !next.IsZero() {
		return next.In(t.Location())
	}
	return time.Time{}
}

// never reports whether a field has no value at all, as "," has none.
func (s *Schedule) never() bool {
	return s.times.Minute == 0 || s.times.Hour == 0 || s.times.Month == 0 || s.times.Dom == 0 && s.times.Dow == 0
}

const (
	// longJump is more than clocks are put forward by for summer, and so little that a day keeps most of its hours.
	longJump = 4 * time.Hour
	// farthest is more than clocks anywhere differ from UTC.
	farthest = 26 * time.Hour
)

// jumps reports whether the clocks of t's zone are put forward by more than longJump before a search that begins at t ends.
func jumps(t time.Time) bool {
	end := t.AddDate(years+1, 0, 0).Add(farthest)
	for at := t.Add(-farthest); ; {
		_, change := at.ZoneBounds()
		if change.IsZero() || change.After(end) {
			return false
		}
		if !change.After(at) { // what package time makes of the last rule of some zones
			if at = at.Add(farthest); at.After(end) {
				return false
			}
			continue
		}
		_, before := change.Add(-time.Second).Zone()
		_, after := change.Zone()
		if time.Duration(after-before)*time.Second > longJump {
			return true
		}
		at = change
	}
}

// walk looks for the next time by going from day to day in the calendar, and through a day that matches minute by minute.
// It takes at most a step for each day of six years, and for each minute of those few that match.
func (s *Schedule) walk(t time.Time) time.Time {
	t = t.Add(time.Second - time.Duration(t.Nanosecond()))
	year, month, day := t.Date()
	for date := time.Date(year, month, day, 0, 0, 0, 0, time.UTC); date.Year() <= year+years; {
		if !has(s.times.Month, int(date.Month())) {
			date = time.Date(date.Year(), date.Month()+1, 1, 0, 0, 0, 0, time.UTC)
			continue
		}
		if s.on(date) {
			if found := s.within(date, t); !found.IsZero() {
				return found
			}
		}
		date = date.AddDate(0, 0, 1)
	}
	return time.Time{}
}

// within returns the first time on a date that is not before t; zero if there is none. A time that comes twice counts
// twice, and one that is left out does not come.
func (s *Schedule) within(date, t time.Time) time.Time {
	at := date.Add(-farthest).In(t.Location())
	if at.Before(t) {
		at = t
	}
	end := date.Add(24*time.Hour + farthest)
	for at.Before(end) {
		if second := at.Second(); second != 0 { // also where the clocks of a zone differ by seconds from others
			at = at.Add(time.Duration(60-second) * time.Second)
			continue
		}
		year, month, day := at.Date()
		if day == date.Day() && month == date.Month() && year == date.Year() &&
			has(s.times.Hour, at.Hour()) && has(s.times.Minute, at.Minute()) {
			return at
		}
		at = at.Add(time.Minute)
	}
	return time.Time{}
}

// on reports whether a date matches the day of the month and that of the week: one of them is enough if both are given.
func (s *Schedule) on(date time.Time) bool {
	const star = 63 // the bit that says that a field was a star
	ofMonth, ofWeek := has(s.times.Dom, date.Day()), has(s.times.Dow, int(date.Weekday()))
	if has(s.times.Dom, star) || has(s.times.Dow, star) {
		return ofMonth && ofWeek
	}
	return ofMonth || ofWeek
}

func has(bits uint64, n int) bool { return bits&(1<<n) != 0 }
