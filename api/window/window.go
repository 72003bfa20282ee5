// Package window says when times of the day and of the week are open, such as "22:00-06:00 Mon-Fri".
//
// A text and a time zone come in. Out comes whether a time is within, and when that changes next, in a bounded number of steps whatever
// the text, the zone and the time are. Nothing here does I/O.
package window

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // a zone means the same on machines that have no time zones of their own
)

const (
	// maxText is how many bytes a text may have.
	maxText = 500
	// maxSpans is how many windows it may have.
	maxSpans = 20
	// horizon is for how many days a change is looked for: a week, and what zones leave out of the calendar when they change sides of
	// the date line.
	horizon = 16

	day  = 24 * 60 // minutes
	week = 7 * day
)

// Window is some times of each week, in a time zone. Nil is always open.
//
// It opens when the clocks of the zone first show its beginning, and closes when they show its end for the last time: so where
// clocks are put back within it, it is longer, and does not open twice. A time that clocks leave out is the moment in which they do.
type Window struct {
	text   string
	zone   *time.Location
	spans  []span // by their beginnings
	always bool
}

// span is a time of some days.
type span struct {
	days     [7]bool // on which it begins, from Sunday on
	from, to int     // minutes of that day; to may be on the next
}

// Parse reads times such as "22:00-06:00 Mon-Fri, 00:00-24:00 Sat Sun": each is HH:MM-HH:MM, until the next day if it does not end after
// it begins, and may have the days on which it begins.
func Parse(text string, zone *time.Location) (*Window, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("must be no more than %d bytes", maxText)
	}
	w := &Window{text: strings.TrimSpace(text), zone: zone}
	for part := range strings.SplitSeq(text, ",") {
		s, err := parseSpan(part)
		if err != nil {
			return nil, err
		}
		if w.spans = append(w.spans, s); len(w.spans) > maxSpans {
			return nil, fmt.Errorf("must be no more than %d windows", maxSpans)
		}
	}
	slices.SortStableFunc(w.spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	w.always = w.coversTheWeek()
	return w, nil
}

var hours = regexp.MustCompile(`^([0-9]{1,2}):([0-9]{2})-([0-9]{1,2}):([0-9]{2})$`)

func parseSpan(text string) (s span, err error) {
	timed, named := false, false
	for _, word := range strings.Fields(text) {
		if !strings.Contains(word, ":") {
			if err := s.addDays(word); err != nil {
				return s, err
			}
			named = true
			continue
		}
		found := hours.FindStringSubmatch(word)
		if found == nil || timed {
			return s, fmt.Errorf(`%q is not a time such as 22:00-06:00, and the days on which it begins`, strings.TrimSpace(text))
		}
		timed = true
		if s.from, s.to = minutes(found[1], found[2]), minutes(found[3], found[4]); s.from < 0 || s.to < 0 || s.from == day {
			return s, fmt.Errorf("%q: times are from 00:00 to 23:59, and 24:00 at the end", word)
		}
		switch {
		case s.from == s.to:
			return s, fmt.Errorf("%q never opens: the whole day is 00:00-24:00", word)
		case s.to < s.from:
			s.to += day
		}
	}
	switch {
	case !timed && named:
		return s, fmt.Errorf("%q has no time: days are separated by spaces, and windows by commas, as in 22:00-06:00 Mon Wed, 00:00-24:00 Sat-Sun",
			strings.TrimSpace(text))
	case !timed:
		return s, errors.New(`must be times such as "22:00-06:00 Mon-Fri", separated by commas`)
	case !named:
		s.days = [7]bool{true, true, true, true, true, true, true}
	}
	return s, nil
}

// minutes returns a time of the day; -1 for none.
func minutes(hour, minute string) int {
	h, _ := strconv.Atoi(hour)
	m, _ := strconv.Atoi(minute)
	if m > 59 || h > 24 || h == 24 && m > 0 {
		return -1
	}
	return h*60 + m
}

// addDays adds days such as Mon, or Mon-Fri.
func (s *span) addDays(word string) error {
	first, last, ranged := strings.Cut(word, "-")
	if !ranged {
		last = first
	}
	a, b := weekday(first), weekday(last)
	if a < 0 || b < 0 {
		return fmt.Errorf("%q are no days such as Mon, or Mon-Fri", word)
	}
	for d := a; ; d = (d + 1) % 7 {
		s.days[d] = true
		if d == b {
			return nil
		}
	}
}

// weekday returns which day of the week a name is; -1 for none.
func weekday(name string) int {
	for d := time.Sunday; d <= time.Saturday; d++ {
		if strings.EqualFold(name, d.String()[:3]) || strings.EqualFold(name, d.String()) {
			return int(d)
		}
	}
	return -1
}

// coversTheWeek reports whether a window never closes.
func (w *Window) coversTheWeek() bool {
	var open [2 * week]bool // what is open on Saturday goes on over the end of the week
	for _, s := range w.spans {
		for d, begins := range s.days {
			if begins {
				for m := d*day + s.from; m < d*day+s.to; m++ {
					open[m] = true
				}
			}
		}
	}
	for m := range week {
		if !open[m] && !open[m+week] {
			return false
		}
	}
	return true
}

// String returns the text of which the window was made.
func (w *Window) String() string { return w.text }

// Zone returns the time zone.
func (w *Window) Zone() *time.Location { return w.zone }

// At reports whether the window is open at a time, and when that changes, in its zone: zero for never.
func (w *Window) At(t time.Time) (open bool, until time.Time) {
	if w == nil || w.always {
		return true, time.Time{}
	}
	year, month, date := t.In(w.zone).Date()
	for d := -2; d <= horizon; d++ { // one that began two days ago may go on where the calendar leaves out a day
		midnight := time.Date(year, month, date+d, 0, 0, 0, 0, time.UTC)
		for _, s := range w.spans {
			if !s.days[midnight.Weekday()] {
				continue
			}
			opens, _ := w.shown(midnight.Add(time.Duration(s.from) * time.Minute))
			_, closes := w.shown(midnight.Add(time.Duration(s.to) * time.Minute))
			switch {
			case !opens.Before(closes) || !closes.After(t): // left out by the clocks, or over
			case !open && opens.After(t):
				return false, opens
			case !open:
				open, until = true, closes
			case opens.After(until):
				return true, until
			case closes.After(until):
				until = closes
			}
		}
	}
	return open, until
}

// Open reports whether the window is open at a time.
func (w *Window) Open(t time.Time) bool {
	open, _ := w.At(t)
	return open
}

// Opens returns when the window is open first, from a time on.
func (w *Window) Opens(t time.Time) time.Time {
	if open, until := w.At(t); !open {
		return until
	}
	return t
}

// shown returns when the clocks of the zone first show a time, which is written as if it were UTC, and from when on they show only
// later ones. Where they leave it out, both are the moment in which they do.
func (w *Window) shown(wall time.Time) (first, last time.Time) {
	year, month, date := wall.Date()
	t := time.Date(year, month, date, wall.Hour(), wall.Minute(), 0, 0, w.zone)
	start, end := t.ZoneBounds()
	near := []time.Time{t}
	if !start.IsZero() {
		near = append(near, start.Add(-time.Second))
	}
	if end.After(t) {
		near = append(near, end)
	}
	for _, n := range near {
		_, offset := n.Zone()
		c := wall.Add(-time.Duration(offset) * time.Second).In(w.zone)
		if _, is := c.Zone(); is != offset {
			continue
		}
		if first.IsZero() || c.Before(first) {
			first = c
		}
		if c.After(last) {
			last = c
		}
	}
	if !first.IsZero() {
		return first, last
	}
	// It is left out: t is on one side of that moment.
	if _, offset := t.Zone(); t.Add(time.Duration(offset)*time.Second).UTC().After(wall) && !start.IsZero() {
		return start, start
	}
	if end.After(t) {
		return end, end
	}
	return t, t
}
