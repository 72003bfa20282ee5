package metrics

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/internal/watchdog"
)

func TestMetricsOfTheWatchdog(t *testing.T) {
	w := watchdog.New(watchdog.Options{})
	w.Section("control-loop", "a pass")
	a, err := aside.Open(filepath.Join(t.TempDir(), "aside"), "v1")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Hang(aside.Hang{Concern: "jobs", Key: "jobs.batch/default/x", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	m := New(fill(t))
	m.ShowWatchdog(w, a)
	got := scrape(t, m)
	for series, want := range map[string]float64{
		"jobd_watchdog_slow_total{section=control-loop}":   0,
		"jobd_watchdog_work_seconds{section=control-loop}": 0,
		"jobd_set_aside_objects{}":                         1,
	} {
		if value, ok := got[series]; !ok || value != want {
			t.Errorf("%s is %v (%t), want %v", series, value, ok, want)
		}
	}
}
