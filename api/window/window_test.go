package window

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func zone(t interface{ Fatal(...any) }, name string) *time.Location {
	l, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"22:00-06:00 Mon-Fri":                     "",
		"22:00-6:00":                              "",
		"Mon-Fri 22:00-06:00":                     "",
		"22:00-24:00 sat Sunday":                  "",
		"22:00-06:00 Mon-Fri,00:00-24:00 Sat-Sun": "",
		"00:00-24:00":                             "",
		"22:00-00:00":                             "",
		"":                                        `must be times such as "22:00-06:00 Mon-Fri"`,
		" , ":                                     "must be times such as",
		"22:00-06:00,":                            "must be times such as",
		"22:00-22:00":                             "never opens: the whole day is 00:00-24:00",
		"00:00-00:00":                             "never opens",
		"24:00-06:00":                             "times are from 00:00 to 23:59",
		"22:00-24:30":                             "times are from 00:00 to 23:59",
		"22:60-06:00":                             "times are from 00:00 to 23:59",
		"22-06":                                   `"22-06" are no days`,
		"22:00":                                   "is not a time such as 22:00-06:00",
		"22:00-06:00 08:00-09:00":                 "is not a time such as 22:00-06:00",
		"22:00-06:00 Mo":                          `"Mo" are no days such as Mon`,
		"22:00-06:00 Mon,Tue":                     `"Tue" has no time: days are separated by spaces`,
		"* 22 * * *":                              "are no days",
		strings.Repeat("22:00-06:00,", 30):        "must be no more than 20 windows",
		strings.Repeat("22:00-06:00   ,  ", 50):   "must be no more than 500 bytes",
	} {
		_, err := Parse(text, time.UTC)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// When windows change, also around the days on which clocks are put forward and back.
func TestChanges(t *testing.T) {
	for _, c := range []struct {
		name, zone, text, at string
		open                 bool
		until                string // empty: never
	}{
		{"before it", "UTC", "22:00-06:00", "2026-11-27T21:59:59Z", false, "2026-11-27T22:00:00Z"},
		{"its first moment", "UTC", "22:00-06:00", "2026-11-27T22:00:00Z", true, "2026-11-28T06:00:00Z"},
		{"after midnight", "UTC", "22:00-06:00", "2026-11-28T05:59:59Z", true, "2026-11-28T06:00:00Z"},
		{"its end is outside", "UTC", "22:00-06:00", "2026-11-28T06:00:00Z", false, "2026-11-28T22:00:00Z"},
		{"the night of Friday ends on Saturday", "UTC", "22:00-06:00 Mon-Fri", "2026-11-28T03:00:00Z", true, "2026-11-28T06:00:00Z"},
		{"and the next is on Monday", "UTC", "22:00-06:00 Mon-Fri", "2026-11-28T06:00:00Z", false, "2026-11-30T22:00:00Z"},
		{"days over the end of the week", "UTC", "08:00-09:00 Sat-Mon", "2026-11-30T09:00:00Z", false, "2026-12-05T08:00:00Z"},
		{"those that meet are one", "UTC", "22:00-24:00, 00:00-06:00", "2026-11-27T23:00:00Z", true, "2026-11-28T06:00:00Z"},
		{"those that overlap are one", "UTC", "20:00-23:00, 22:00-06:00", "2026-11-27T21:00:00Z", true, "2026-11-28T06:00:00Z"},
		{"a week and its nights", "UTC", "22:00-06:00 Mon-Fri, 00:00-24:00 Sat-Sun", "2026-11-27T23:00:00Z", true, "2026-11-30T00:00:00Z"},
		{"always", "UTC", "00:00-24:00", "2026-11-27T23:00:00Z", true, ""},
		{"always, in parts", "UTC", "06:00-22:00, 22:00-06:00", "2026-11-27T23:00:00Z", true, ""},
		{"in its zone", "America/New_York", "22:00-06:00", "2026-11-28T03:00:00Z", true, "2026-11-28T06:00:00-05:00"},

		{"the night that is an hour shorter", "Europe/Berlin", "22:00-06:00", "2026-03-28T22:00:00+01:00", true, "2026-03-29T06:00:00+02:00"},
		{"a beginning that is left out", "Europe/Berlin", "02:30-04:00", "2026-03-29T01:00:00+01:00", false, "2026-03-29T03:00:00+02:00"},
		{"an end that is left out", "Europe/Berlin", "22:00-02:30", "2026-03-29T01:00:00+01:00", true, "2026-03-29T03:00:00+02:00"},
		{"one that is left out comes a day later", "Europe/Berlin", "02:15-02:45", "2026-03-29T01:00:00+01:00", false, "2026-03-30T02:15:00+02:00"},
		{"the night that is an hour longer", "Europe/Berlin", "22:00-06:00", "2026-10-24T22:00:00+02:00", true, "2026-10-25T06:00:00+01:00"},
		{"a beginning that comes twice: the first", "Europe/Berlin", "02:30-04:00", "2026-10-25T01:00:00+02:00", false, "2026-10-25T02:30:00+02:00"},
		{"an end that comes twice: the second", "Europe/Berlin", "22:00-02:30", "2026-10-25T02:30:00+02:00", true, "2026-10-25T02:30:00+01:00"},
		{"both come twice, and it opens once", "Europe/Berlin", "02:15-02:45", "2026-10-25T02:45:00+02:00", true, "2026-10-25T02:45:00+01:00"},
		{"half an hour", "Australia/Lord_Howe", "01:45-03:00", "2026-10-04T01:00:00+10:30", false, "2026-10-04T01:45:00+10:30"},
		{"a day that is left out", "Pacific/Apia", "08:00-09:00 Fri", "2011-12-29T12:00:00-10:00", false, "2012-01-06T08:00:00+14:00"},
		{"the night before a day that is left out", "Pacific/Apia", "22:00-06:00 Thu", "2011-12-29T23:00:00-10:00", true, "2011-12-31T00:00:00+14:00"},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		w, err := Parse(c.text, zone(t, c.zone))
		if err != nil {
			t.Fatal(err)
		}
		open, until := w.At(at)
		got := ""
		if !until.IsZero() {
			got = until.Format(time.RFC3339)
		}
		if open != c.open || got != c.until {
			t.Errorf("%s: %v until %s, want %v until %s", c.name, open, got, c.open, c.until)
		}
	}
	if open, until := (*Window)(nil).At(time.Now()); !open || !until.IsZero() {
		t.Error("without a window it is always open")
	}
}

// What At says of a time holds until the time that it names, and no longer. Whatever the window is, it opens within eight days where the
// calendar leaves out no day, and its times are those of the clocks, where these are not changed.
func TestItHoldsUntilItChanges(t *testing.T) {
	days := []string{"", " Mon", " Mon-Fri", " Sat-Sun", " Fri-Mon", " Tue Thu"}
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Africa/Casablanca", "America/Santiago"}
	rapid.Check(t, func(t *rapid.T) {
		var parts []string
		for range rapid.IntRange(1, 3).Draw(t, "windows") {
			from, to := rapid.IntRange(0, day-1).Draw(t, "from"), rapid.IntRange(0, day).Draw(t, "to")
			if from == to {
				to++
			}
			at := func(m int) string { return time.Date(2000, 1, 1, m/60, m%60, 0, 0, time.UTC).Format("15:04") }
			end := at(to)
			if to == day {
				end = "24:00"
			}
			parts = append(parts, at(from)+"-"+end+rapid.SampledFrom(days).Draw(t, "days"))
		}
		in := zone(t, rapid.SampledFrom(zones).Draw(t, "zone"))
		w, err := Parse(strings.Join(parts, ","), in)
		if err != nil {
			t.Skip(err) // the end is the beginning
		}
		at := time.Unix(rapid.Int64Range(1_000_000_000, 2_000_000_000).Draw(t, "at"), 0)
		open, until := w.At(at)
		if until.IsZero() {
			if !open || !w.always {
				t.Fatalf("%s never changes", w)
			}
			return
		}
		if !until.After(at) || !open && until.Sub(at) > 15*24*time.Hour {
			t.Fatalf("%s at %v: %v until %v", w, at, open, until)
		}
		if w.Open(until) == open {
			t.Fatalf("%s at %v: still %v", w, until, open)
		}
		for range 20 {
			within := at.Add(time.Duration(rapid.Int64Range(0, int64(until.Sub(at))-1).Draw(t, "within")))
			if is, then := w.At(within); is != open || !then.Equal(until) {
				t.Fatalf("%s at %v: %v until %v, but at %v %v until %v", w, at, open, until, within, is, then)
			}
		}
		_, before := at.Add(-36 * time.Hour).In(in).Zone()
		if _, after := at.Add(36 * time.Hour).In(in).Zone(); before == after && open != w.clocksSay(at) {
			t.Fatalf("%s at %v: %v", w, at.In(in), open)
		}
	})
}

// clocksSay looks at the clock of the zone alone.
func (w *Window) clocksSay(at time.Time) bool {
	local := at.In(w.zone)
	m, d := local.Hour()*60+local.Minute(), int(local.Weekday())
	for _, s := range w.spans {
		if s.days[d] && m >= s.from && m < s.to || s.days[(d+6)%7] && m+day < s.to {
			return true
		}
	}
	return false
}
