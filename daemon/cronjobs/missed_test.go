package cronjobs_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/daemon/controltest"
)

func annotated(pairs ...string) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) {
		cj.Annotations = map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			cj.Annotations[pairs[i]] = pairs[i+1]
		}
		cj.Spec.SuccessfulJobsHistoryLimit = new(int32)
		*cj.Spec.SuccessfulJobsHistoryLimit = 1000
	}
}

// started are the minutes for which a CronJob of a World has started Jobs.
func started(w *controltest.World, name string) (minutes []int64) {
	w.T.Helper()
	for _, of := range w.JobNames() {
		for n := range int64(1000) {
			if of == minute(name, n) {
				minutes = append(minutes, n)
			}
		}
	}
	slices.Sort(minutes)
	return minutes
}

// A machine that is off for three hours, and a daemon that is started anew while it makes up for what was missed.
func TestMissedTimesAcrossDowntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		forbid := func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = batchv1.ForbidConcurrent }
		of := func(policy string, more ...string) func(*batchv1.CronJob) {
			return annotated(append([]string{batch.MissedAnnotation, policy}, more...)...)
		}
		w.CreateCronJob("latest", "*/30 * * * *", "10m", of("latest"))
		w.CreateCronJob("none", "*/30 * * * *", "10m", of("none"))
		w.CreateCronJob("all", "*/30 * * * *", "10m", of("all", batch.MissedMaxAnnotation, "3"))
		w.CreateCronJob("queued", "*/30 * * * *", "10m", func(cj *batchv1.CronJob) { of("all")(cj); forbid(cj) })
		time.Sleep(35 * time.Minute)
		w.Stop()
		time.Sleep(3 * time.Hour) // until 03:35
		w.Start()
		time.Sleep(time.Second)
		for name, want := range map[string][]int64{
			"latest": {30, 210}, "none": {30}, "all": {30, 150, 180, 210}, "queued": {30, 60},
		} {
			if got := started(w, name); !slices.Equal(got, want) {
				t.Errorf("%s has started %v, want %v", name, got, want)
			}
		}
		if s := said(w); s["TooManyMissedTimes"] != 1 || s["MissSchedule"] != 1 {
			t.Errorf("events %v", s)
		}
		for range 6 { // no start of the daemon starts anything twice, or in another order
			time.Sleep(5 * time.Minute)
			w.Stop()
			w.Start()
		}
		time.Sleep(time.Second)
		if got := started(w, "queued"); !slices.Equal(got, []int64{30, 60, 90, 120, 150}) || len(w.CronJob("queued").Status.Active) != 1 {
			t.Errorf("queued has started %v", got)
		}
		time.Sleep(2 * time.Hour)
		got, want := started(w, "queued"), []int64{30, 60, 90, 120, 150, 180, 210, 240, 270, 300, 330, 360}
		if !slices.Equal(got, want[:len(got)]) || len(got) < 11 {
			t.Errorf("queued has started %v", got)
		}
	})
}

// A clock that is put forward misses the times between; one that is set back starts nothing again.
func TestMissedTimesWhenTheClockJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		w.CreateCronJob("c", "0 * * * *", "1s", annotated(batch.MissedAnnotation, "all"))
		time.Sleep(61 * time.Minute)
		w.SetClock(3 * time.Hour)
		time.Sleep(time.Minute)
		if got := started(w, "c"); !slices.Equal(got, []int64{60, 120, 180, 240}) {
			t.Errorf("put forward: %v", got)
		}
		w.SetClock(0)
		time.Sleep(3 * time.Hour)
		if got := started(w, "c"); !slices.Equal(got, []int64{60, 120, 180, 240}) {
			t.Errorf("set back: %v", got)
		}
		time.Sleep(time.Hour)
		if got := started(w, "c"); !slices.Equal(got, []int64{60, 120, 180, 240, 300}) {
			t.Errorf("later: %v", got)
		}
	})
}

// Jitter, two schedules at once, and what the pods of a run are told about its time.
func TestJitterAndSchedules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		cj := w.CreateCronJob("c", "0 * * * *", "1s", annotated(batch.JitterAnnotation, "10m", batch.SchedulesAnnotation, "0,30 * * * *; 0 1 * * *"))
		times, err := batch.CronJobTimesOf(cj)
		if err != nil || times.Offset < time.Minute {
			t.Fatalf("%+v, %v", times, err)
		}
		time.Sleep(30*time.Minute + times.Offset - time.Second)
		if got := started(w, "c"); len(got) > 0 {
			t.Errorf("too early: %v", got)
		}
		time.Sleep(time.Second)
		if got := started(w, "c"); !slices.Equal(got, []int64{30}) {
			t.Errorf("at %v there are %v", time.Now().UTC(), got)
		}
		w.Stop()
		w.Start()
		time.Sleep(2 * time.Hour)
		if got := started(w, "c"); !slices.Equal(got, []int64{30, 60, 90, 120, 150}) {
			t.Errorf("%v", got)
		}
		at := map[string]string{}
		for _, p := range w.Pods() {
			at[p.Labels[batchv1.JobNameLabel]] = p.Annotations[batchv1.CronJobScheduledTimestampAnnotation]
		}
		if len(at) != 5 || at[minute("c", 90)] != "2000-01-01T01:30:00Z" {
			t.Errorf("pods of %v", at)
		}
	})
}
