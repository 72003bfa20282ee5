package control_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// A month of a busy machine leaves no more than the last days of it: Jobs, their pods, events and what the daemon keeps for itself go,
// also over restarts, and the database does not grow for ever.
func TestAMonthEndsWithWhatTheLastDaysHaveLeft(t *testing.T) {
	days := 30
	if testing.Short() {
		days = 12
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		w.Stop()
		w.TTL = job.TTL{Complete: 24 * time.Hour, Failed: 72 * time.Hour}
		w.HistoryBytes = 1 << 20
		w.Start()
		w.CreateCronJob("minutely", "* * * * *", "1s", nil)
		const complete, failed, settled = 20, 5, 6
		var most map[string]int
		var size int64
		for day := range days {
			for i := range complete + failed {
				codes := "0"
				if i >= complete {
					codes = "1"
				}
				j := controltest.Simulate(fmt.Sprintf("day%d-%d", day, i), "1s", codes)
				j.Spec.BackoffLimit = ptr.To[int32](0)
				w.Create(j)
			}
			time.Sleep(5 * time.Minute)
			w.SetClock(time.Duration(day+1) * 24 * time.Hour)
			time.Sleep(2 * time.Minute)
			if day%5 == 4 {
				w.Stop()
				w.Start()
			}
			synctest.Wait()
			count := map[string]int{}
			var kept int64
			_ = w.Store.View(func(s *store.Snapshot) error {
				s.Range("", "", func(o store.Object) bool {
					resource, _, _ := strings.Cut(o.Key, "/")
					if strings.HasPrefix(resource, "history") { // as its own limit says
						kept += int64(len(o.Value))
					} else {
						count[resource]++
					}
					return true
				})
				return nil
			})
			if kept > 1<<20 {
				t.Fatalf("day %d: %d bytes of history", day, kept)
			}
			info, err := os.Stat(w.Path)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case day < settled:
				most, size = count, info.Size()
				continue
			case day < 2*settled-2: // a day may have more than the one before
				for resource, n := range count {
					most[resource] = max(most[resource], n)
				}
				size = max(size, info.Size())
				continue
			}
			for resource, n := range count {
				if n > most[resource]+most[resource]/4+5 {
					t.Errorf("day %d: %d %s, and %d at most in the first days", day, n, resource, most[resource])
				}
			}
			if n, want := count[objects.Jobs], 2*complete+4*failed+4; n > want || n < failed {
				t.Errorf("day %d: %d Jobs, want at most %d", day, n, want)
			}
			if info.Size() > 2*size {
				t.Errorf("day %d: a database of %d bytes, and of %d in the first days", day, info.Size(), size)
			}
		}
	})
}

// What a setting removes is told once, and whoever has a controller is left to it.
func TestJobsExpireByASetting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		w.Stop()
		w.TTL = job.TTL{Complete: time.Hour}
		w.Start()
		w.Create(controltest.Simulate("done", "1s", "0"))
		w.Create(controltest.Simulate("failed", "1s", "1"))
		own := controltest.Simulate("own", "1s", "0")
		own.Spec.TTLSecondsAfterFinished = ptr.To[int32](7200)
		w.Create(own)
		w.CreateCronJob("nightly", "1 0 1 1 *", "1s", func(cj *batchv1.CronJob) { cj.Spec.Suspend = ptr.To(true) })
		time.Sleep(10 * time.Minute)
		w.Stop()
		w.Start()
		told := 0
		for _, said := range w.Events("done") {
			if strings.Contains(said, "Will be removed at") {
				told++
			}
		}
		if told != 1 {
			t.Errorf("told %d times: %v", told, w.Events("done"))
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		for name, want := range map[string]bool{"done": false, "failed": true, "own": true} {
			if got := w.Job(name) != nil; got != want {
				t.Errorf("after an hour %s is there: %v", name, got)
			}
		}
	})
}
