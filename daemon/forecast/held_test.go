package forecast

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	wire "github.com/jobd/jobd/api/forecast"
)

func TestTheLaterOfTwo(t *testing.T) {
	in := func(d time.Duration, basis string, runs int) *wire.Expected { return expected(now.Add(d), basis, runs) }
	for name, c := range map[string]struct {
		a, b *wire.Expected
		want string
	}{
		"of one nobody knows":                  {in(time.Hour, wire.Deadline, 0), nil, ""},
		"both by deadline":                     {in(time.Hour, wire.Deadline, 0), in(2*time.Hour, wire.Deadline, 0), "expected by 14:00 (by deadline)"},
		"the earlier one is a guess":           {in(time.Hour, wire.History, 4), in(2*time.Hour, wire.Deadline, 0), "expected at 14:00 (4 earlier runs)"},
		"the earlier one is one of fewer runs": {in(time.Hour, wire.History, 1), in(2*time.Hour, wire.History, 4), "expected at 14:00 (1 earlier run)"},
		"the earlier one is sure":              {in(time.Hour, wire.Deadline, 0), in(2*time.Hour, wire.History, 4), "expected at 14:00 (4 earlier runs)"},
		"a time that was said is no limit":     {in(time.Hour, wire.Deadline, 0), in(2*time.Hour, wire.StartTime, 0), "expected at 14:00 (jobd.dev/start-at)"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, e := range []*wire.Expected{Later(c.a, c.b), Later(c.b, c.a)} {
				got := ""
				if e != nil {
					got = e.Brief(now)
				}
				if got != c.want {
					t.Errorf("%q, want %q", got, c.want)
				}
			}
		})
	}
}

// TestPlacesAreTakenInOrder plays a group: no more than its limit are in it at a time, and each starts as soon as there is a place.
func TestPlacesAreTakenInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 4).Draw(t, "limit")
		type run struct{ from, to time.Time }
		var all []run
		var holders []*wire.Expected
		for range rapid.IntRange(0, 6).Draw(t, "holders") {
			end := expected(now.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "end"))*time.Second), wire.History, 1)
			holders = append(holders, end)
			all = append(all, run{now, end.At.Time})
		}
		places, last := NewPlaces(limit, holders, now), now
		for range 10 {
			first := places.First()
			if first == nil {
				t.Fatal("nobody knows, though all is known")
			}
			if first.At.Time.Before(last) {
				t.Fatal("a place comes before the one before it")
			}
			last = first.At.Time
			beside, sooner := 0, last.Equal(now)
			for _, r := range all {
				if r.to.After(last) {
					beside++
				}
				sooner = sooner || r.to.Equal(last)
			}
			if beside >= limit || !sooner {
				t.Fatalf("%d run when there is to be a place, of %d; ends then: %v", beside, limit, sooner)
			}
			end := After(first, Runs{time.Duration(rapid.IntRange(1, 100).Draw(t, "takes")) * time.Second}, 0)
			all = append(all, run{last, end.At.Time})
			places.Take(end)
		}
	})
}
