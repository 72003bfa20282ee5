// Package startat reads when a Job is to start, as people write it on a command line, and in scripts for Slurm and PBS.
//
// A text and the current time come in, in whose zone the text is meant unless it names another. A time in whole seconds goes out, or an
// error that says which forms there are. Nothing here does I/O.
package startat

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// farthest is how far off a time may be: what is farther is a slip.
const farthest = 10 * 366 * 24 * time.Hour

// Parse reads the value of a flag: +2h, 22:00 (the next one), 2026-12-01T08:00, or a time in RFC 3339.
func Parse(text string, now time.Time) (time.Time, error) {
	at, err := parse(text, now)
	switch {
	case err != nil:
		return time.Time{}, err
	case !at.After(now):
		return time.Time{}, fmt.Errorf("%s is past: it is %s", text, now.Format(time.RFC3339))
	}
	return bounded(text, at, now)
}

func parse(text string, now time.Time) (time.Time, error) {
	if rest, ok := strings.CutPrefix(text, "+"); ok {
		d, err := time.ParseDuration(rest)
		if err != nil || d < 0 {
			return time.Time{}, fmt.Errorf("%q is not + and a duration such as 90m or 2h30m", text)
		}
		return now.Add(d).Truncate(time.Second), nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	if at, ok, err := onDate(text, now, "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02 15:04:05"); ok || err != nil {
		return at, err
	}
	if at, ok, err := next(text, now, "15:04", "15:04:05"); ok || err != nil {
		return at, err
	}
	return time.Time{}, fmt.Errorf("%q is not a time such as +2h, 22:00, 2026-12-01T08:00 or 2026-12-01T08:00:00+01:00", text)
}

var (
	fromNow = regexp.MustCompile(`^now(?:\+(\d{1,9})(second|minute|hour|day|week)?s?)?$`)
	units   = map[string]time.Duration{
		"": time.Second, "second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour, "week": 7 * 24 * time.Hour,
	}
	words = map[string]string{"midnight": "00:00", "noon": "12:00", "elevenses": "11:00", "fika": "15:00", "teatime": "16:00"}
)

// Slurm reads the value of sbatch's --begin. A time that is past is now.
func Slurm(text string, now time.Time) (time.Time, error) {
	lower := strings.ToLower(strings.ReplaceAll(strings.TrimSpace(text), " ", ""))
	if found := fromNow.FindStringSubmatch(lower); found != nil {
		n, _ := strconv.ParseInt("0"+found[1], 10, 64)
		if unit := units[found[2]]; n > int64(farthest/unit) {
			return time.Time{}, tooFar(text)
		}
		return bounded(text, now.Add(time.Duration(n)*units[found[2]]).Truncate(time.Second), now)
	}
	switch lower {
	case "today":
		return now.Truncate(time.Second), nil
	case "tomorrow":
		lower = now.AddDate(0, 0, 1).Format(time.DateOnly)
	}
	if word, ok := words[lower]; ok {
		lower = word
	}
	upper := strings.ToUpper(lower) // AM, PM and T
	at, ok, err := next(upper, now, "15:04", "15:04:05", "3:04PM", "3:04:05PM")
	if !ok && err == nil {
		at, ok, err = onDate(upper, now, "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02", "010206", "01/02/06", "1/2/06")
	}
	if !ok && err == nil {
		at, ok, err = thisYear(upper, now)
	}
	switch {
	case err != nil:
		return time.Time{}, err
	case !ok:
		return time.Time{}, fmt.Errorf("%q is not a time such as 16:00, now+1hour, tomorrow or 2026-12-01T08:00", text)
	}
	return bounded(text, at, now)
}

// thisYear reads a date without a year.
func thisYear(text string, now time.Time) (time.Time, bool, error) {
	for _, year := range []int{now.Year(), now.Year() + 1} {
		at, ok, err := onDate(fmt.Sprintf("%04d/%s", year, text), now, "2006/01/02", "2006/1/2")
		if !ok || err != nil || at.After(now) || year > now.Year() {
			return at, ok, err
		}
	}
	return time.Time{}, false, nil
}

var pbsTime = regexp.MustCompile(`^(?:(\d\d)??(\d\d)??(\d\d)??(\d\d))?(\d\d)(\d\d)(?:\.(\d\d))?$`)

// PBS reads the value of qsub's -a: [[[[CC]YY]MM]DD]hhmm[.SS]. What is left out is such that the time comes next.
func PBS(text string, now time.Time) (time.Time, error) {
	found := pbsTime.FindStringSubmatch(text)
	if found == nil {
		return time.Time{}, fmt.Errorf("%q is not a time of the form [[[[CC]YY]MM]DD]hhmm[.SS]", text)
	}
	clock := found[5] + found[6] + found[7]
	if found[7] == "" {
		clock += "00"
	}
	// What is said of the date, from the year to the day.
	digits := strings.Join(found[1:5], "")
	var candidates []string
	switch year, month := now.Year(), now.Month(); len(digits) {
	case 8:
		candidates = []string{digits}
	case 6:
		candidates = []string{"20" + digits}
	case 4:
		candidates = []string{fmt.Sprint(year) + digits, fmt.Sprint(year+1) + digits}
	case 2:
		for i := range 3 { // a month may not have that day, of two that follow each other one does
			first := time.Date(year, month+time.Month(i), 1, 0, 0, 0, 0, time.UTC)
			candidates = append(candidates, first.Format("200601")+digits)
		}
	default:
		candidates = []string{now.Format("20060102"), now.AddDate(0, 0, 1).Format("20060102")}
	}
	err := fmt.Errorf("%q has no such date", text)
	for i, date := range candidates {
		at, ok, wrong := onDate(date+clock, now, "20060102150405")
		if wrong != nil {
			return time.Time{}, wrong
		}
		if ok && (at.After(now) || i == len(candidates)-1) {
			return bounded(text, at, now)
		}
	}
	return time.Time{}, err
}

// onDate reads a date with a time; false if none of the forms is that of the text.
func onDate(text string, now time.Time, forms ...string) (time.Time, bool, error) {
	for _, form := range forms {
		as, err := time.Parse(form, text)
		if err != nil {
			continue
		}
		at := time.Date(as.Year(), as.Month(), as.Day(), as.Hour(), as.Minute(), as.Second(), 0, now.Location())
		if at.Format(form) != as.Format(form) {
			return time.Time{}, false, fmt.Errorf("%s does not come at that date: the clocks are put forward then", as.Format("15:04:05"))
		}
		return at, true, nil
	}
	return time.Time{}, false, nil
}

// next reads a time of day, and returns when it comes next.
func next(text string, now time.Time, forms ...string) (time.Time, bool, error) {
	for _, form := range forms {
		as, err := time.Parse(form, text)
		if err != nil {
			continue
		}
		for day := range 2 {
			date := now.AddDate(0, 0, day).Format(time.DateOnly)
			at, _, err := onDate(date+as.Format(" 15:04:05"), now, "2006-01-02 15:04:05")
			if err != nil || at.After(now) {
				return at, err == nil, err
			}
		}
	}
	return time.Time{}, false, nil
}

func bounded(text string, at, now time.Time) (time.Time, error) {
	if at.Sub(now) > farthest {
		return time.Time{}, tooFar(text)
	}
	return at, nil
}

func tooFar(text string) error { return errors.New(text + " is more than ten years off") }
