package flowcontrol

import (
	"testing"
	"time"
)

func TestHowLongABodyMayTake(t *testing.T) {
	now := time.Now()
	const day = 24 * time.Hour
	for _, tc := range []struct {
		name string
		pace pace
		want time.Duration
	}{
		{"the first byte", pace{}, time.Minute},
		{"too little has come", pace{waited: 50 * time.Second, bytes: bodyRate}, 11 * time.Second},
		{"much has come, and then nothing", pace{waited: time.Hour, bytes: 1 << 40}, time.Minute},
		{"gigabytes at the lowest rate", pace{waited: 30 * day, bytes: 30 * 24 * 3600 * bodyRate}, time.Minute},
		{"the time of the request is nearly over", pace{latest: now.Add(time.Second), bytes: 1 << 40}, time.Second},
	} {
		tc.pace.pause = time.Minute
		if got := tc.pace.until(now).Sub(now); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}
