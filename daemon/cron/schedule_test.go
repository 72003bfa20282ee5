package cron

import (
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/schedule"
)

func parse(t interface{ Fatal(...any) }, text, zone string) schedule.Union {
	cj := &batchv1.CronJob{Spec: batchv1.CronJobSpec{Schedule: text}}
	if zone != "" {
		cj.Spec.TimeZone = &zone
	}
	s, err := schedule.ParseUnion(scheduleOf(cj))
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

func TestLast(t *testing.T) {
	for _, tc := range []struct{ name, schedule, zone, start, now, want string }{
		{"nothing was due", "0 * * * *", "UTC", "2024-05-01T10:00:00Z", "2024-05-01T10:59:59Z", ""},
		{"what is due now", "0 * * * *", "UTC", "2024-05-01T10:00:00Z", "2024-05-01T11:00:00Z", "2024-05-01T11:00:00Z"},
		{"the last of a year", "*/5 * * * *", "UTC", "2023-05-01T10:00:00Z", "2024-05-01T10:59:59Z", "2024-05-01T10:55:00Z"},
		{"uneven times", "30 6-16/4 * * 1-5", "UTC", "2024-05-01T00:00:00Z", "2024-05-06T05:00:00Z", "2024-05-03T14:30:00Z"},
		{"a leap day", "0 0 29 2 *", "UTC", "2020-03-01T00:00:00Z", "2027-01-01T00:00:00Z", "2024-02-29T00:00:00Z"},
		{"a day that never comes", "0 0 31 2 *", "UTC", "2020-03-01T00:00:00Z", "2027-01-01T00:00:00Z", ""},
		{"macros", "@daily", "Europe/Berlin", "2024-05-01T00:00:00Z", "2024-05-03T12:00:00Z", "2024-05-02T22:00:00Z"},
		{"every counts from the start", "@every 7m", "", "2024-05-01T00:01:00Z", "2024-05-01T00:23:00Z", "2024-05-01T00:22:00Z"},
		{"of a minute in decades", "* * * * *", "UTC", "1970-01-01T00:00:00Z", "2026-01-01T00:00:30Z", "2026-01-01T00:00:00Z"},
		{"of a minute in centuries", "* * * * *", "UTC", "0001-01-01T00:00:01Z", "2026-01-01T00:00:30Z", "2026-01-01T00:00:00Z"},
		{"every, in centuries", "@every 7h", "", "0001-01-01T00:00:01Z", "2026-01-01T00:00:30Z", "2025-12-31T22:00:01Z"},
		{"a day that was left out", "0 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", "2014-01-01T00:00:00Z", "2013-12-29T22:00:00Z"},
		{"every has whole seconds", "@every 10s", "", "2024-05-01T00:00:00.7Z", "2024-05-01T00:00:10.3Z", "2024-05-01T00:00:10Z"},

		// In Berlin, 2024-03-31 has no 02:30, and 2024-10-27 has two.
		{"the hour that is left out is left out", "30 2 * * *", "Europe/Berlin", "2024-03-30T12:00:00Z", "2024-03-31T12:00:00Z", ""},
		{"the day after it is back", "30 2 * * *", "Europe/Berlin", "2024-03-30T12:00:00Z", "2024-04-01T12:00:00Z", "2024-04-01T00:30:00Z"},
		{"the hour that comes twice, once", "30 2 * * *", "Europe/Berlin", "2024-10-26T12:00:00Z", "2024-10-27T00:59:00Z", "2024-10-27T00:30:00Z"},
		{"the hour that comes twice, again", "30 2 * * *", "Europe/Berlin", "2024-10-27T00:30:00Z", "2024-10-27T12:00:00Z", "2024-10-27T01:30:00Z"},
		{"midday moves with the clock", "0 12 * * *", "Europe/Berlin", "2024-03-30T12:00:00Z", "2024-03-31T23:00:00Z", "2024-03-31T10:00:00Z"},
		{"a change of half an hour costs the day, as in clusters", "0 12 * * *", "Australia/Lord_Howe", "2024-10-05T12:00:00Z", "2024-10-06T12:00:00Z", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := parse(t, tc.schedule, tc.zone).Last(at(tc.start), at(tc.now))
			if tc.want == "" && got.IsZero() || tc.want != "" && got.Equal(at(tc.want)) {
				return
			}
			t.Errorf("%v, want %q", got.UTC(), tc.want)
		})
	}
}

// TestLastIsThatOfAWalk compares the search for the last time, and the count, with what they stand for.
func TestLastIsThatOfAWalk(t *testing.T) {
	schedules := []string{
		"* * * * *", "*/7 * * * *", "30 2 * * *", "0 0,3 * * 0", "15 1-4/2 1,15 * *", "@hourly", "@weekly", "@every 90s",
		"@every 25h", "59 23 31 12 *",
	}
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kathmandu"}
	rapid.Check(t, func(t *rapid.T) {
		schedule, zone := rapid.SampledFrom(schedules).Draw(t, "schedule"), rapid.SampledFrom(zones).Draw(t, "zone")
		if schedule[:2] == "@e" {
			zone = ""
		}
		// Around the days on which clocks change.
		day := rapid.SampledFrom(
			[]string{"2024-03-10T07:00:00Z", "2024-03-31T01:00:00Z", "2024-10-27T01:00:00Z", "2024-11-03T06:00:00Z", "2017-10-15T03:00:00Z"},
		).Draw(t, "day")
		start := at(day).Add(time.Duration(rapid.Int64Range(-100_000, 100_000).Draw(t, "start")) * time.Second)
		now := start.Add(time.Duration(rapid.Int64Range(0, 200_000_000).Draw(t, "ms")) * time.Millisecond)
		s := parse(t, schedule, zone)
		want, n := time.Time{}, 0
		for next := s.Next(start); !next.After(now); next = s.Next(next) {
			want = next
			n++
		}
		if got := s.Last(start, now); !got.Equal(want) {
			t.Fatalf("last is %v, want %v", got, want)
		}
		if got := many(s, start, now); got != (n > manyMissed) {
			t.Fatalf("many is %v of %d", got, n)
		}
	})
}

func TestSchedulesHaveAZone(t *testing.T) {
	of := func(text string, zone *string, further string) string {
		cj := &batchv1.CronJob{Spec: batchv1.CronJobSpec{Schedule: text, TimeZone: zone}}
		if further != "" {
			cj.Annotations = map[string]string{batch.SchedulesAnnotation: further}
		}
		return scheduleOf(cj)
	}
	got := []string{
		of("@daily", nil, ""), of("@daily", ptr.To("Asia/Tokyo"), ""), of("CRON_TZ=UTC @daily", ptr.To("Asia/Tokyo"), ""), of("@daily", nil, "@weekly"),
	}
	if want := []string{"@daily", "TZ=Asia/Tokyo @daily", "CRON_TZ=UTC @daily", "@daily; @weekly"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
