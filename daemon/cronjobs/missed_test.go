package cronjobs_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/retry"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
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

// Runs that are made up for run once each, and in their order, whatever the policy of their group says about two at a time.
func TestMissedTimesInAGroup(t *testing.T) {
	for _, policy := range []string{core.QueueConcurrent, core.ForbidConcurrent, core.ReplaceConcurrent} {
		for name, ofNamespace := range map[string]bool{"of their own": false, "of the namespace": true} {
			t.Run(policy+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := controltest.New(t)
					defer w.End()
					in := map[string]string{core.ConcurrencyGroupAnnotation: "db", core.ConcurrencyPolicyAnnotation: policy}
					if ofNamespace {
						ns := &corev1.Namespace{}
						ns.Name, ns.Annotations, in = "default", in, nil
						w.Put(store.Key(objects.Namespaces, "", "default"), ns)
					}
					w.CreateCronJob("c", "*/30 * * * *", "10m", func(cj *batchv1.CronJob) {
						annotated(batch.MissedAnnotation, "all")(cj)
						cj.Spec.JobTemplate.Annotations = in
					})
					time.Sleep(35 * time.Minute)
					w.Stop()
					time.Sleep(2 * time.Hour) // until 02:35
					w.Start()
					time.Sleep(5 * time.Minute)
					w.Stop()
					w.Start()
					time.Sleep(time.Hour)
					var last time.Time
					for _, n := range []int64{30, 60, 90, 120, 150} {
						j := w.Job(minute("c", n))
						if j == nil || batch.End(&j.Status) == nil || batch.End(&j.Status).Type != batchv1.JobComplete {
							t.Fatalf("the run of %d has not completed: %+v", n, j)
						}
						if j.Status.StartTime.Time.Before(last) {
							t.Errorf("that of %d began at %v, and the one before ended at %v", n, j.Status.StartTime, last)
						}
						last = j.Status.CompletionTime.Time
					}
				})
			})
		}
	}
}

// Runs that wait for a Job that has failed do not become more and more, and all of them go on when that has succeeded.
func TestRunsAfterAFailedJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		prep := controltest.Simulate("prep", "1s", "1")
		prep.Spec.BackoffLimit = new(int32)
		w.Create(prep)
		w.CreateCronJob("c", "*/10 * * * *", "1s", func(cj *batchv1.CronJob) {
			annotated()(cj)
			cj.Spec.JobTemplate.Annotations, cj.Spec.JobTemplate.Spec.Suspend = map[string]string{batch.AfterAnnotation: "prep"}, new(bool)
			*cj.Spec.JobTemplate.Spec.Suspend = true
		})
		for range 3 {
			time.Sleep(3*time.Hour + time.Minute)
			w.Stop()
			w.Start()
		}
		if got := started(w, "c"); len(got) != 10 || got[9] != 100 {
			t.Errorf("it has started %v", got)
		}
		if s := said(w); s["TooManyWaitingJobs"] == 0 {
			t.Errorf("events %v", s)
		}
		prep = w.Job("prep")
		if err := retry.Begin(prep, retry.Request{}, "me", time.Now()); err != nil {
			t.Fatal(err)
		}
		prep.Spec.Template.Annotations["jobd.dev/simulate-exit-code"] = "0"
		w.Put(objects.Key(objects.Jobs, prep), prep)
		time.Sleep(time.Minute)
		got := started(w, "c")
		if len(got) != 11 {
			t.Errorf("after that it has started %v", got)
		}
		for _, n := range got {
			if j := w.Job(minute("c", n)); batch.End(&j.Status) == nil {
				t.Errorf("the run of %d has not ended: %+v", n, j.Status)
			}
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
