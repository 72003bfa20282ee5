package schedule

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestEveryStandsAlone(t *testing.T) {
	for _, texts := range [][]string{{"@every 1h", "@daily"}, {"@daily", "@every 1h"}} {
		if _, err := ParseUnion(texts...); err == nil || !strings.Contains(err.Error(), "@every cannot stand beside") {
			t.Errorf("%q: %v", texts, err)
		}
	}
	u, err := ParseUnion("@every 90s")
	if err != nil || u.Every() != 90*time.Second {
		t.Errorf("%v, %v", u, err)
	}
}

// TestUnionIsThatOfAWalk compares the searches with going through all times one after another.
func TestUnionIsThatOfAWalk(t *testing.T) {
	texts := []string{"* * * * *", "*/7 * * * *", "30 2 * * *", "0 0,3 * * 0", "15 1-4/2 1,15 * *", "@weekly", "30 1-3 * 3,10 *", "59 23 31 12 *", "* * 1 1 *"}
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo"}
	rapid.Check(t, func(t *rapid.T) {
		var u Union
		if rapid.IntRange(0, 4).Draw(t, "every") == 0 {
			u, _ = ParseUnion(rapid.SampledFrom([]string{"@every 90s", "@every 7h"}).Draw(t, "beat"))
		} else {
			zone := "TZ=" + rapid.SampledFrom(zones).Draw(t, "zone") + " "
			var of []string
			for range rapid.IntRange(1, 4).Draw(t, "schedules") {
				of = append(of, zone+rapid.SampledFrom(texts).Draw(t, "schedule"))
			}
			var err error
			if u, err = ParseUnion(of...); err != nil {
				t.Fatal(err)
			}
		}
		day := rapid.SampledFrom([]string{"2024-03-10T07:00:00Z", "2024-03-31T01:00:00Z", "2024-10-27T01:00:00Z", "2017-10-15T03:00:00Z"}).Draw(t, "day")
		start, _ := time.Parse(time.RFC3339, day)
		start = start.Add(time.Duration(rapid.Int64Range(-100_000, 100_000).Draw(t, "start")) * time.Second)
		span := rapid.Int64Range(0, 400_000_000).Draw(t, "ms")
		now := start.Add(time.Duration(span) * time.Millisecond)
		from := start.Add(time.Duration(rapid.Int64Range(-1000, span).Draw(t, "from")) * time.Millisecond)
		n := rapid.IntRange(1, 20).Draw(t, "n")

		var all []time.Time
		for at := u.Next(start); !at.IsZero() && !at.After(now); at = u.Next(at) {
			if len(all) > 0 && !at.After(all[len(all)-1]) {
				t.Fatalf("%v comes after %v", at, all[len(all)-1])
			}
			all = append(all, at)
		}
		last := time.Time{}
		if len(all) > 0 {
			last = all[len(all)-1]
		}
		if got := u.Last(start, now); !got.Equal(last) {
			t.Fatalf("last is %v, want %v", got, last)
		}
		want := slices.DeleteFunc(all, func(at time.Time) bool { return at.Before(from) })
		over := len(want) > n
		want = want[max(0, len(want)-n):]
		got, more := u.Newest(start, from, now, n)
		if !slices.EqualFunc(got, want, time.Time.Equal) || more != over {
			t.Fatalf("%v and more %v, want %v and %v", got, more, want, over)
		}
	})
}

// Neither how long ago the start is nor how seldom there is a time makes the search long.
func TestNewestIsBounded(t *testing.T) {
	for _, text := range []string{"* * * * *", "0 0 29 2 *", "59 23 31 12 *", "0 0 30 2 *", "* * 1 1 *"} {
		var of []string
		for _, zone := range []string{"UTC", "Pacific/Apia", "Asia/Tokyo", "Europe/Berlin"} {
			of = append(of, "TZ="+zone+" "+text)
		}
		u, err := ParseUnion(of...)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
		times, _ := u.Newest(time.Time{}.Add(time.Hour), time.Time{}, now, 100)
		if text != "0 0 30 2 *" && len(times) != 100 {
			t.Errorf("%s: %d times", text, len(times))
		}
	}
}
