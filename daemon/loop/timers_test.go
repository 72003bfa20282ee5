package loop

import (
	"slices"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"
)

// TestTimersAgainstAMap holds the heap against the simplest thing that could work.
func TestTimersAgainstAMap(t *testing.T) {
	start := time.Unix(1000, 0)
	rapid.Check(t, func(t *rapid.T) {
		timers, model := newTimers(), map[string]time.Time{}
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				key := strconv.Itoa(rapid.IntRange(0, 9).Draw(t, "key"))
				due := start.Add(time.Duration(rapid.IntRange(0, 99).Draw(t, "seconds")) * time.Second)
				timers.Set(Base{}, key, due)
				model[key] = due
			},
			"clear": func(t *rapid.T) {
				key := strconv.Itoa(rapid.IntRange(0, 9).Draw(t, "key"))
				timers.Set(Base{}, key, time.Time{})
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
				for _, k := range timers.expired(now, most) {
					got = append(got, model[k.key])
					delete(model, k.key)
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
				if got := timers.next(start); !got.Equal(want) {
					t.Fatalf("next: got %v, want %v", got, want)
				}
			},
		})
	})
}

// onClock is the same moment on a wall clock that was set.
func onClock(t time.Time, by time.Duration) time.Time {
	// The 33 bits of it before the 30 of the nanoseconds are the seconds of a time that has a monotonic reading too.
	*(*uint64)(unsafe.Pointer(&t)) += uint64(by/time.Second) << 30
	return t
}

func TestTimersAreNotHeldUpByTheClock(t *testing.T) {
	begin := time.Now()
	for rule, tc := range map[string]struct {
		set   time.Duration
		after time.Duration
		due   []string
	}{
		"before either":    {0, 4 * time.Second, nil},
		"as they were set": {0, 40 * time.Second, []string{"of the day", "counted"}},
		"what is counted does not wait for a clock":       {-time.Hour, 40 * time.Second, []string{"counted"}},
		"a time of the day does not wait for a count":     {time.Hour, time.Second, []string{"of the day"}},
		"of two that are due the one that was due longer": {time.Hour, 40 * time.Second, []string{"of the day", "counted"}},
	} {
		t.Run(rule, func(t *testing.T) {
			timers := newTimers()
			timers.Set(Base{}, "of the day", begin.Add(5*time.Second).Round(0))
			timers.Set(Base{}, "counted", begin.Add(10*time.Second).Round(0)) // and changed:
			timers.Set(Base{}, "counted", begin.Add(30*time.Second))
			now := onClock(begin.Add(tc.after), tc.set)
			if next := timers.next(now).Sub(now) <= 0; next != (len(tc.due) > 0) {
				t.Errorf("the next is due: %v", next)
			}
			var due []string
			for _, k := range timers.expired(now, 9) {
				due = append(due, k.key)
			}
			if !slices.Equal(due, tc.due) {
				t.Errorf("due %v, want %v", due, tc.due)
			}
		})
	}
}
