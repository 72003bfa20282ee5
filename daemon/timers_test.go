package daemon

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestTimersAgainstAMap holds the heap against the simplest thing that could work.
func TestTimersAgainstAMap(t *testing.T) {
	start := time.Unix(1000, 0)
	rapid.Check(t, func(t *rapid.T) {
		timers, model := newTimers[int](), map[int]time.Time{}
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				key := rapid.IntRange(0, 9).Draw(t, "key")
				due := start.Add(time.Duration(rapid.IntRange(0, 99).Draw(t, "seconds")) * time.Second)
				timers.Set(key, due)
				model[key] = due
			},
			"clear": func(t *rapid.T) {
				key := rapid.IntRange(0, 9).Draw(t, "key")
				timers.Set(key, time.Time{})
				delete(model, key)
			},
			"due": func(t *rapid.T) {
				now := start.Add(time.Duration(rapid.IntRange(0, 99).Draw(t, "seconds")) * time.Second)
				most := rapid.IntRange(1, 12).Draw(t, "most")
				var want []time.Time
				for _, due := range model {
					if !due.After(now) {
						want = append(want, due)
					}
				}
				slices.SortFunc(want, time.Time.Compare)
				want = want[:min(most, len(want))]
				var got []time.Time
				for _, key := range timers.Due(now, most) {
					got = append(got, model[key])
					delete(model, key)
				}
				if !slices.Equal(got, want) {
					t.Fatalf("%d due at %v: got %v, want %v", most, now, got, want)
				}
			},
			"": func(t *rapid.T) {
				var want time.Time
				for _, due := range model {
					if want.IsZero() || due.Before(want) {
						want = due
					}
				}
				if got := timers.Next(); !got.Equal(want) {
					t.Fatalf("next: got %v, want %v", got, want)
				}
			},
		})
	})
}
