package forecast

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestClock(t *testing.T) {
	now := time.Date(2026, 11, 28, 23, 50, 0, 0, time.Local)
	for want, at := range map[string]time.Time{
		"23:59":            now.Add(9 * time.Minute),
		"Nov 29 00:10":     now.Add(20 * time.Minute),
		"Jan 3 23:50":      now.AddDate(0, 0, 36),
		"2027-11-28 23:50": now.AddDate(1, 0, 0),
		"2101-11-28 23:50": now.AddDate(75, 0, 0),
	} {
		if got := (&Expected{At: metav1.NewTime(at)}).Clock(now); got != want {
			t.Errorf("%v: %s, want %s", at, got, want)
		}
	}
}
