package schedule

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func parse(t testing.TB, text string) *Schedule {
	t.Helper()
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func at(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return t
}

func TestNext(t *testing.T) {
	for _, tc := range []struct{ name, schedule, after, want string }{
		{"a day that Apia has left out comes a year later", "TZ=Pacific/Apia 0 12 30 12 *", "2011-12-01T00:00:00Z", "2012-12-29T22:00:00Z"},
		{"in Fakaofo too", "TZ=Pacific/Fakaofo 0 12 30 12 *", "2011-12-01T00:00:00Z", "2012-12-29T23:00:00Z"},
		{"in Kwajalein too", "TZ=Pacific/Kwajalein 0 12 21 8 *", "1993-08-01T00:00:00Z", "1994-08-21T00:00:00Z"},
		{"and in Kiritimati, at the end of a year", "TZ=Pacific/Kiritimati 0 12 31 12 *", "1994-12-01T00:00:00Z", "1995-12-30T22:00:00Z"},
		{"every day, but for that one", "TZ=Pacific/Apia 0 12 * * *", "2011-12-29T22:00:01Z", "2011-12-30T22:00:00Z"},
		{"a Friday that was left out", "TZ=Pacific/Apia 0 12 * * 5", "2011-12-29T00:00:00Z", "2012-01-05T22:00:00Z"},
		{"the day before it", "TZ=Pacific/Apia 59 23 29 12 *", "2011-12-01T00:00:00Z", "2011-12-30T09:59:00Z"},
		{"the day after it", "TZ=Pacific/Apia 0 0 31 12 *", "2011-12-01T00:00:00Z", "2011-12-30T10:00:00Z"},
		{"a midnight that comes twice is not past the second time", "TZ=America/St_Johns 0 0 7 11 *", "2010-11-07T03:00:00Z", "2010-11-07T03:30:00Z"},
		{"a zone that differs by seconds", "TZ=Africa/Monrovia 0 12 * * *", "1971-12-01T00:00:00Z", "1971-12-01T12:44:30Z"},
		{"long ago", "TZ=Europe/Berlin 0 12 1 1 *", "0001-06-01T00:00:00Z", "0002-01-01T11:06:32Z"},
		{"far ahead", "0 12 1 1 *", "9999-06-01T00:00:00Z", "10000-01-01T12:00:00Z"},
		{"a day that no month has", "0 0 31 2,4,6,9,11 *", "2024-01-01T00:00:00Z", ""},
		{"a leap day beyond five years", "0 0 29 2 *", "2096-03-01T00:00:00Z", ""},
		{"no minute", ", * * * *", "2024-01-01T00:00:00Z", ""},
		{"no hour", "* , * * *", "2024-01-01T00:00:00Z", ""},
		{"no day", "* * , * *", "2024-01-01T00:00:00Z", ""},
		{"no month", "* * * , *", "2024-01-01T00:00:00Z", ""},
		{"no day of the month, but of the week", "0 0 , * 1", "2024-01-01T00:00:00Z", "2024-01-08T00:00:00Z"},
		{"a step beyond all", "*/9223372036854775807 * * * *", "2024-01-01T00:00:00Z", "2024-01-01T01:00:00Z"},
		{"every second, rounded", "@every 1ns", "2024-01-01T00:00:00.9Z", "2024-01-01T00:00:01Z"},
		{"every few centuries", "@every 2562047h", "2024-01-01T00:00:00Z", "2316-04-11T23:00:00Z"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			next := parse(t, tc.schedule).Next(at(tc.after))
			got := ""
			if !next.IsZero() {
				got = next.UTC().Format("2006-01-02T15:04:05Z")
			}
			if got != tc.want {
				t.Errorf("%s, want %q", got, tc.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{
		"", " ", "TZ=", "TZ=0", "TZ=UTC", "CRON_TZ=", "CRON_TZ=UTC", "TZ= ", "TZ=UTC ", "CRON_TZ=UTC @", "TZ=\t* * * * *", "TZ=CRON_TZ=UTC * * * * *",
		"TZ=../../etc/passwd * * * * *", "TZ=Nowhere/City * * * * *", "* * * *", "* * * * * *", "60 * * * *", "*/0 * * * *", "5-1 * * * *",
		"1-2-3 * * * *", "1/2/3 * * * *", "-1 * * * *", "@", "@every", "@every ", "@every 1", "@every 9999999h", "@reboot", "L * * * *",
	} {
		if s, err := Parse(text); err == nil {
			t.Errorf("%q is taken as %v", text, s)
		}
	}
}

// zones returns all zones of the machine's database, without those that are other names of them.
func zones(t testing.TB) (all []*time.Location) {
	f, err := os.Open("/usr/share/zoneinfo/tzdata.zi")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 2 && fields[0] == "Z" {
			in, err := time.LoadLocation(fields[1])
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, in)
		}
	}
	if len(all) < 300 {
		t.Fatalf("only %d zones", len(all))
	}
	return all
}

// changes calls yield with the times at which the clocks of a zone are changed from 1970 to a year.
func changes(in *time.Location, until int, yield func(time.Time)) {
	for at := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < until; {
		_, change := at.In(in).ZoneBounds()
		switch {
		case change.IsZero():
			return
		case !change.After(at):
			at = at.Add(farthest)
			continue
		}
		at = change.UTC()
		yield(at)
	}
}

// every returns n, or long in a long run.
func every(n, long int) int {
	if testing.Short() {
		return n
	}
	return long
}

// TestNextInAllZones asks for times around changes of each zone's clocks. It would not end if one of them had none.
func TestNextInAllZones(t *testing.T) {
	n, i, left := 0, 0, 0
	for z, in := range zones(t) {
		until := 2040 // from then on the rules of each zone are the same in each year
		if z%every(50, 5) == 0 {
			until = 2100
		}
		changes(in, until, func(change time.Time) {
			jumps := jumps(change.Add(-farthest).In(in))
			if i++; i%every(60, 10) != 0 && !jumps {
				return
			}
			for ahead := -1; ahead <= 1; ahead++ {
				day := change.In(in).AddDate(0, 0, ahead)
				s, from := parse(t, fmt.Sprintf("TZ=%s 30 0,2,12 %d %d *", in, day.Day(), day.Month())), change.Add(-50*time.Hour)
				for n++; from.Before(change.Add(50 * time.Hour)); {
					next := s.Next(from)
					if next.IsZero() { // a leap day, or one whose midnight is left out each year, for the library
						break
					}
					if !next.After(from) {
						t.Fatalf("%s: %v comes after %v", in, next.In(in), from.In(in))
					}
					if y, m, d := next.In(in).Date(); jumps && !s.on(time.Date(y, m, d, 0, 0, 0, 0, time.UTC)) {
						t.Fatalf("%s: %d-%d is on %d-%d", in, day.Month(), day.Day(), m, d)
					}
					from = next
				}
			}
			if jumps {
				left++
			}
		})
	}
	if t.Logf("%d schedules, %d changes before a long jump", n, left); left < 5 {
		t.Error("the days that zones leave out were not found")
	}
}

// TestWalkAgreesWithTheLibrary compares the two ways to find a time. They differ where a midnight is left out or comes twice,
// since the library then takes another hour for it, and where clocks are changed by less than an hour.
func TestWalkAgreesWithTheLibrary(t *testing.T) {
	n, i := 0, 0
	for _, in := range zones(t) {
		changes(in, 2040, func(change time.Time) {
			before, after := change.Add(-time.Second).In(in), change.In(in)
			_, was := before.Zone()
			_, is := after.Zone()
			if i++; i%every(1500, 300) != 0 || was-is != 3600 && is-was != 3600 || before.Hour() > 20 || before.Hour() < 1 ||
				after.Hour() > 20 || after.Hour() < 1 {
				return
			}
			for _, fields := range []string{"15 2 * * *", "0 12 * * *", "*/20 0-3 * * 0,6", "0 0 1,15 * 1", "30 23 * * *"} {
				s := parse(t, fmt.Sprintf("TZ=%s %s", in, fields))
				for from := change.Add(-30 * time.Hour); from.Before(change.Add(30 * time.Hour)); from = from.Add(7 * time.Hour) {
					if jumps(from.In(in)) {
						continue
					}
					n++
					if library, walked := s.times.Next(from), s.walk(from.In(in)); !library.Equal(walked) {
						t.Errorf("%s %s after %v: library %v, walk %v", in, fields, from.In(in), library.In(in), walked)
					}
				}
			}
		})
	}
	t.Logf("%d times", n)
}

func FuzzNext(f *testing.F) {
	f.Add("0 12 30 12 *", "Pacific/Apia", int64(1322697600))
	f.Add("TZ=", "", int64(0))
	f.Add("CRON_TZ=UTC", "UTC", int64(1))
	f.Add(", * * * *", "Europe/Berlin", int64(1<<40))
	f.Add("@every 25s", "", int64(-62135596800))
	f.Add("0-59/7 */5 31 2 mon", "Antarctica/Troll", int64(1<<31))
	f.Fuzz(func(t *testing.T, text, zone string, unix int64) {
		if zone != "" {
			text = "TZ=" + zone + " " + text
		}
		s, err := Parse(text)
		if err != nil {
			return
		}
		const most = 253402300799 // the last second of the year 9999
		from := time.Unix(unix%most, 0).UTC()
		for range 3 {
			next := s.Next(from)
			if next.IsZero() {
				return
			}
			if !next.After(from) {
				t.Fatalf("%q: %v comes after %v", text, next, from)
			}
			from = next
		}
	})
}

func BenchmarkNext(b *testing.B) {
	for _, text := range []string{
		"* * * * *", "0 0 31 2 *", ", * * * *", "TZ=Europe/Berlin 0 0 29 2 *", "TZ=Pacific/Apia 0 12 30 12 *",
	} {
		b.Run(text, func(b *testing.B) {
			s, from := parse(b, text), at("2011-12-01T00:00:00Z")
			for b.Loop() {
				s.Next(from)
			}
		})
	}
}
