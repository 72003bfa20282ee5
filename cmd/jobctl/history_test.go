package main

import (
	"testing"
	"time"

	"github.com/jobd/jobd/api/history"
)

func TestParseSince(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	for s, want := range map[string]time.Time{
		"":                     {},
		"90m":                  now.Add(-90 * time.Minute),
		"7d":                   now.AddDate(0, 0, -7),
		"1.5d":                 now.Add(-36 * time.Hour),
		"2w":                   now.AddDate(0, 0, -14),
		"2026-03-01":           time.Date(2026, 3, 1, 0, 0, 0, 0, time.Local),
		"2026-03-01T10:00:00Z": time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC),
	} {
		if got, err := parseSince(s, now); err != nil || !got.Equal(want) {
			t.Errorf("%q is %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"yesterday", "-1h", "-1d", "7", "d", "1e99d", "2026-13-01"} {
		if got, err := parseSince(s, now); err == nil {
			t.Errorf("%q is %v", s, got)
		}
	}
}

func TestAmountsInTheHistory(t *testing.T) {
	for n, want := range map[int64]string{0: "<unknown>", 1 << 20: "1.0Mi", 300 << 20: "300Mi", 20 << 30: "20.0Gi"} {
		if got := bytesOf(n); got != want {
			t.Errorf("%d bytes are %q, want %q", n, got, want)
		}
	}
	for s, want := range map[float64]string{0: "0s", 0.0123: "12ms", 1.26: "1.3s", 3725.4: "1h2m5s"} {
		if got := seconds(s); got != want {
			t.Errorf("%v seconds are %q, want %q", s, got, want)
		}
	}
	for manager, want := range map[string]string{"": "0s", "clusters.jobd.dev/prod": "<unknown>"} {
		if got := cpuOf(&history.Job{ManagedBy: manager}); got != want {
			t.Errorf("a Job of the manager %q has had processors for %q, want %q", manager, got, want)
		}
	}
}
