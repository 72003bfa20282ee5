package cronjobs_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/cronjobs"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// said counts the events about CronJobs by reason.
func said(w *controltest.World) map[string]int {
	w.T.Helper()
	synctest.Wait()
	all := map[string]int{}
	if err := w.Store.View(func(s *store.Snapshot) error {
		return objects.Each(s, objects.Events, func(_ string, e *corev1.Event) error {
			if e.Source.Component == events.CronJobController {
				all[e.Reason] += int(e.Count)
			}
			return nil
		})
	}); err != nil {
		w.T.Fatal(err)
	}
	return all
}

// minute returns the name of the Job of the n-th minute after the bubble's time begins, at midnight of 2000-01-01.
func minute(name string, n int64) string {
	return fmt.Sprintf("%s-%d", name, time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Unix()/60+n)
}

func TestACronJobStartsOnTimeAndKeepsItsHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		w.CreateCronJob("c", "* * * * *", "30s", nil)
		time.Sleep(5*time.Minute + 10*time.Second)
		got := w.CronJob("c").Status
		if len(got.Active) != 1 || got.Active[0].Name != minute("c", 5) || got.LastScheduleTime.UTC().Format("15:04:05") != "00:05:00" ||
			got.LastSuccessfulTime.Sub(got.LastScheduleTime.Time).Round(time.Second) > -29*time.Second {
			t.Errorf("%+v", got)
		}
		if names := w.JobNames(); !slices.Equal(names, []string{minute("c", 2), minute("c", 3), minute("c", 4), minute("c", 5)}) {
			t.Errorf("Jobs %v", names)
		}
		if n := len(w.Pods()); n != 4 {
			t.Errorf("%d pods, want those of the Jobs that are kept", n)
		}
		j := w.Job(minute("c", 5))
		if j.CreationTimestamp.UTC().Format("15:04:05") != "00:05:00" || j.Spec.Selector == nil || j.Status.Active != 1 {
			t.Errorf("%+v", j)
		}
		if s := said(w); s["SuccessfulCreate"] != 5 || s["SawCompletedJob"] != 4 || s["SuccessfulDelete"] != 1 || len(s) != 3 {
			t.Errorf("events %v", s)
		}
		w.WantFigures(map[string]float64{"cronjob_controller_job_creation_skew_duration_seconds{}": 5})
	})
}

func TestConcurrencyOfACronJob(t *testing.T) {
	for policy, want := range map[batchv1.ConcurrencyPolicy]string{
		batchv1.AllowConcurrent:   "[1 2 3] active [1 2 3]",
		batchv1.ForbidConcurrent:  "[1] active [1]",
		batchv1.ReplaceConcurrent: "[3] active [3]",
	} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := controltest.New(t)
				defer w.End()
				w.CreateCronJob("c", "* * * * *", "1h", func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = policy })
				time.Sleep(3*time.Minute + 40*time.Second)
				number := func(name string) int64 {
					for n := range int64(9) {
						if name == minute("c", n) {
							return n
						}
					}
					return -1
				}
				var all, active []int64
				for _, name := range w.JobNames() {
					all = append(all, number(name))
				}
				for _, ref := range w.CronJob("c").Status.Active {
					active = append(active, number(ref.Name))
				}
				if got := fmt.Sprint(all, " active ", active); got != want {
					t.Errorf("%s, want %s", got, want)
				}
				if n := len(w.Pods()); n != len(all) {
					t.Errorf("%d pods, want %d", n, len(all))
				}
				if policy == batchv1.ForbidConcurrent {
					// It is made up for as soon as the other Job has ended.
					time.Sleep(time.Hour - 2*time.Minute)
					if got := w.CronJob("c").Status.Active; len(got) != 1 || got[0].Name != minute("c", 61) {
						t.Errorf("active %+v", got)
					}
				}
			})
		})
	}
}

func TestACronJobAcrossDowntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		w.CreateCronJob("late", "*/10 * * * *", "1s", nil)
		w.CreateCronJob("strict", "*/10 * * * *", "1s", func(cj *batchv1.CronJob) { cj.Spec.StartingDeadlineSeconds = ptr.To[int64](60) })
		w.CreateCronJob("often", "* * * * *", "1s", nil)
		w.CreateCronJob("suspended", "* * * * *", "1s", func(cj *batchv1.CronJob) { cj.Spec.Suspend = ptr.To(true) })
		for range 3 { // restarts start nothing twice
			time.Sleep(4 * time.Minute)
			w.Stop()
			w.Start()
		}
		if names := w.JobNames(); len(names) != 6 { // including the one that has just started
			t.Errorf("Jobs %v", names)
		}
		w.Stop()
		time.Sleep(3 * time.Hour)
		w.Start()
		time.Sleep(time.Second)
		want := []string{minute("late", 10), minute("late", 190), minute("often", 11), minute("often", 12), minute("often", 192), minute("strict", 10)}
		if names := w.JobNames(); !slices.Equal(names, want) {
			t.Errorf("Jobs %v, want %v", names, want)
		}
		if s := said(w); s["MissSchedule"] != 1 || s["TooManyMissedTimes"] != 1 || s["MissingJob"]+s["UnexpectedJob"] > 0 {
			t.Errorf("events %v", s)
		}
	})
}

func TestAChangedScheduleBeginsNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		w.CreateCronJob("c", "0 * * * *", "1s", nil)
		time.Sleep(90 * time.Minute)
		cj := w.CronJob("c")
		cj.Spec.Schedule = "15 * * * *"
		w.Put(objects.Key(objects.CronJobs, cj), cj)
		time.Sleep(time.Minute)
		if names := w.JobNames(); !slices.Equal(names, []string{minute("c", 60)}) {
			t.Errorf("at once there are Jobs %v", names)
		}
		time.Sleep(time.Hour)
		if names := w.JobNames(); !slices.Equal(names, []string{minute("c", 60), minute("c", 135)}) {
			t.Errorf("Jobs %v", names)
		}
	})
}

func TestDeletingACronJobTakesWhatItShould(t *testing.T) {
	for policy, want := range map[metav1.DeletionPropagation]int{
		metav1.DeletePropagationBackground: 0,
		metav1.DeletePropagationForeground: 0,
		metav1.DeletePropagationOrphan:     2,
	} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := controltest.New(t)
				defer w.End()
				w.CreateCronJob("c", "* * * * *", "1h", nil)
				time.Sleep(2*time.Minute + time.Second)
				cj := w.CronJob("c")
				if storage.SetPropagation(cj, policy); policy == metav1.DeletePropagationBackground {
					w.Write(func(tx *store.Tx) error { tx.Delete(objects.Key(objects.CronJobs, cj)); return nil })
				} else {
					storage.MarkDeleted(cj, time.Now(), 0)
					w.Put(objects.Key(objects.CronJobs, cj), cj)
				}
				time.Sleep(5 * time.Minute)
				if w.CronJob("c") != nil {
					t.Error("it is still there")
				}
				if jobs, pods := len(w.JobNames()), len(w.Pods()); jobs != want || pods != want {
					t.Errorf("%d Jobs and %d pods are left, want %d", jobs, pods, want)
				}
			})
		})
	}
}

func TestAJobOfACronJobThatIsGoneGoesAsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		cj := w.CreateCronJob("c", "0 0 1 1 *", "1s", nil)
		owned := func(name string, uid string) {
			j := controltest.Simulate(name, "1h", "0")
			j.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(cj, batchv1.SchemeGroupVersion.WithKind("CronJob"))}
			if uid != "" {
				j.OwnerReferences[0].UID = "gone"
			}
			w.Create(j)
		}
		owned("by-hand", "") // as kubectl create job --from=cronjob/c does
		owned("stray", "gone")
		time.Sleep(time.Second)
		if names := w.JobNames(); !slices.Equal(names, []string{"by-hand"}) {
			t.Errorf("Jobs %v", names)
		}
		if s := said(w); s["UnexpectedJob"] != 1 || len(w.CronJob("c").Status.Active) > 0 {
			t.Errorf("events %v", s)
		}
	})
}

// scheduledSince returns since when a CronJob's schedule is what it is.
func scheduledSince(w *controltest.World, name string) (since time.Time) {
	w.T.Helper()
	cj := w.CronJob(name)
	if err := w.Store.View(func(s *store.Snapshot) (err error) {
		since, err = cronjobs.ScheduledSince(s, cj)
		return err
	}); err != nil {
		w.T.Fatal(err)
	}
	return since
}

// A schedule that is changed to a time which is past starts nothing, whether or not the daemon is started anew.
func TestAScheduleIsNotForTheTimeBeforeIt(t *testing.T) {
	for name, then := range map[string]func(w *controltest.World){
		"nothing happens":               func(*controltest.World) {},
		"the daemon is started anew":    func(w *controltest.World) { w.Stop(); w.Start() },
		"it is started some time later": func(w *controltest.World) { w.Stop(); time.Sleep(time.Minute); w.Start() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := controltest.New(t)
				defer w.End()
				w.CreateCronJob("c", "0 5 * * *", "1s", nil)
				time.Sleep(2*time.Minute + 10*time.Second)
				cj := w.CronJob("c")
				cj.Spec.Schedule = "1 0 * * *" // a minute ago
				w.Put(objects.Key(objects.CronJobs, cj), cj)
				then(w)
				time.Sleep(time.Hour)
				if jobs := w.JobNames(); len(jobs) > 0 {
					t.Errorf("it has started %v", jobs)
				}
				time.Sleep(24 * time.Hour)
				if jobs := w.JobNames(); !slices.Equal(jobs, []string{minute("c", 24*60+1)}) {
					t.Errorf("it has started %v", jobs)
				}
			})
		})
	}
}

// A schedule that is changed while the daemon does not run, by a daemon that has not folded it in, say, is found to be
// another one.
func TestAScheduleThatIsFoundChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		w.CreateCronJob("c", "0 5 * * *", "1s", nil)
		time.Sleep(2 * time.Minute)
		w.Stop()
		s, err := store.Open(w.Path, store.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Update(t.Context(), func(tx *store.Tx) error {
			o, _ := tx.Get(store.Key(objects.CronJobs, "default", "c"))
			cj := &batchv1.CronJob{}
			if err := objects.Decode(o, cj); err != nil {
				return err
			}
			cj.Spec.Schedule = "1 0 * * *"
			cj.ResourceVersion = ""
			o.Value, err = scheme.Encode(cj)
			tx.Put(o)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		w.Start()
		time.Sleep(time.Hour)
		if jobs := w.JobNames(); len(jobs) > 0 {
			t.Errorf("it has started %v", jobs)
		}
	})
}

// A schedule that is edited while the clock is ahead is that of the time when the clock was put right.
func TestAScheduleThatIsEditedWhileTheClockIsAhead(t *testing.T) {
	for name, restart := range map[string]bool{"": false, "the daemon is started anew": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := controltest.New(t)
				defer w.End()
				w.CreateCronJob("c", "0 5 1 6 *", "1s", nil)
				w.SetClock(48 * time.Hour)
				cj := w.CronJob("c")
				cj.Spec.Schedule = "30 * * * *"
				w.Put(objects.Key(objects.CronJobs, cj), cj)
				if since := scheduledSince(w, "c"); time.Until(since) < 47*time.Hour {
					t.Errorf("since %v", since)
				}
				if restart {
					w.Stop()
					w.Clock = func() time.Time { return time.Now().Round(0) }
					w.Start()
				} else {
					w.SetClock(0)
					w.CreateCronJob("other", "0 5 1 6 *", "1s", nil) // the next pass, which a node's lease brings within seconds
				}
				time.Sleep(29 * time.Minute)
				if since := scheduledSince(w, "c"); since.After(time.Now()) {
					t.Errorf("since %v", since)
				}
				time.Sleep(2 * time.Minute)
				if jobs := w.JobNames(); !slices.Equal(jobs, []string{minute("c", 30)}) {
					t.Errorf("it has started %v", jobs)
				}
			})
		})
	}
}

func TestWhatIsKnownOfAScheduleGoesWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		cj := w.CreateCronJob("c", "* * * * *", "1s", nil)
		time.Sleep(time.Second)
		stored := func() (n int) {
			synctest.Wait()
			if err := w.Store.View(func(s *store.Snapshot) error {
				s.Range(objects.Schedules+"/", "", func(store.Object) bool { n++; return true })
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			return n
		}
		if n := stored(); n != 1 {
			t.Errorf("%d are stored", n)
		}
		w.Write(func(tx *store.Tx) error { tx.Delete(objects.Key(objects.CronJobs, cj)); return nil })
		if n := stored(); n != 0 {
			t.Errorf("%d are left", n)
		}
	})
}

// @every below a minute starts a Job in each minute, and says so: the last time is one at which a Job was started.
func TestACronJobOfSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		w.CreateCronJob("c", "@every 25s", "1s", func(cj *batchv1.CronJob) {
			cj.Spec.TimeZone, cj.Spec.SuccessfulJobsHistoryLimit = nil, ptr.To[int32](100)
		})
		var times []string
		for range 300 {
			time.Sleep(time.Second)
			if last := w.CronJob("c").Status.LastScheduleTime; last != nil {
				if said := last.UTC().Format("04:05"); len(times) == 0 || times[len(times)-1] != said {
					times = append(times, said)
				}
			}
		}
		if jobs := w.JobNames(); len(jobs) != len(times) || fmt.Sprint(times) != "[00:25 01:15 02:05 03:20 04:10 05:00]" {
			t.Errorf("the Jobs %v for the times %v", jobs, times)
		}
	})
}

// A CronJob whose Job is refused starts it once there is room.
func TestAQuotaForTheJobsOfACronJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		w.Limit("jobs", corev1.ResourceList{"count/jobs.batch": resource.MustParse("0")})
		w.CreateCronJob("c", "*/5 * * * *", "1s", nil)
		time.Sleep(6 * time.Minute)
		if n := w.Used("jobs", "count/jobs.batch"); n != "0" {
			t.Fatalf("%s Jobs", n)
		}
		w.Limit("jobs", corev1.ResourceList{"count/jobs.batch": resource.MustParse("1")})
		time.Sleep(20 * time.Second)
		if n := w.Used("jobs", "count/jobs.batch"); n != "1" {
			t.Errorf("%s Jobs", n)
		}
	})
}
