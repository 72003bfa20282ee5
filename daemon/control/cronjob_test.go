package control

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// cron does what the API does with a new CronJob, whose pods take that long.
func (w *world) cron(name, schedule, duration string, edit func(*batchv1.CronJob)) *batchv1.CronJob {
	w.t.Helper()
	cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: uuid.NewUUID(), CreationTimestamp: metav1.Now()}}
	cj.Spec.Schedule, cj.Spec.TimeZone = schedule, ptr.To("UTC")
	template := simulate("", duration, "0").Spec
	template.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox"}}
	template.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	cj.Spec.JobTemplate.Spec = template
	if edit != nil {
		edit(cj)
	}
	kind := batch.CronJobKind()
	kind.Default(cj)
	kind.Strategy.PrepareForCreate(w.t.Context(), cj)
	if errs := kind.Strategy.Validate(w.t.Context(), cj); len(errs) > 0 {
		w.t.Fatal(errs)
	}
	w.put(objects.Key(objects.CronJobs, cj), cj)
	return cj
}

func (w *world) cronJob(name string) *batchv1.CronJob {
	w.t.Helper()
	synctest.Wait()
	cj := &batchv1.CronJob{}
	if err := w.store.View(func(s *store.Snapshot) error {
		o, ok := s.Get(store.Key(objects.CronJobs, "default", name))
		if !ok {
			cj = nil
			return nil
		}
		return objects.Decode(o, cj)
	}); err != nil {
		w.t.Fatal(err)
	}
	return cj
}

// jobNames returns the names of all Jobs.
func (w *world) jobNames() (names []string) {
	w.t.Helper()
	synctest.Wait()
	if err := w.store.View(func(s *store.Snapshot) error {
		return objects.Each(s, objects.Jobs, func(_ string, j *batchv1.Job) error {
			names = append(names, j.Name)
			return nil
		})
	}); err != nil {
		w.t.Fatal(err)
	}
	return names
}

// said counts the events about CronJobs by reason.
func (w *world) said() map[string]int {
	w.t.Helper()
	synctest.Wait()
	said := map[string]int{}
	if err := w.store.View(func(s *store.Snapshot) error {
		return objects.Each(s, objects.Events, func(_ string, e *corev1.Event) error {
			if e.Source.Component == events.CronJobController {
				said[e.Reason] += int(e.Count)
			}
			return nil
		})
	}); err != nil {
		w.t.Fatal(err)
	}
	return said
}

// minute returns the name of the Job of the n-th minute after the bubble's time begins, at midnight of 2000-01-01.
func minute(name string, n int64) string {
	return fmt.Sprintf("%s-%d", name, time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Unix()/60+n)
}

func TestACronJobStartsOnTimeAndKeepsItsHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		w.cron("c", "* * * * *", "30s", nil)
		time.Sleep(5*time.Minute + 10*time.Second)
		got := w.cronJob("c").Status
		if len(got.Active) != 1 || got.Active[0].Name != minute("c", 5) || got.LastScheduleTime.UTC().Format("15:04:05") != "00:05:00" ||
			got.LastSuccessfulTime.Sub(got.LastScheduleTime.Time).Round(time.Second) > -29*time.Second {
			t.Errorf("%+v", got)
		}
		if names := w.jobNames(); !slices.Equal(names, []string{minute("c", 2), minute("c", 3), minute("c", 4), minute("c", 5)}) {
			t.Errorf("Jobs %v", names)
		}
		if n := len(w.pods()); n != 4 {
			t.Errorf("%d pods, want those of the Jobs that are kept", n)
		}
		j := w.job(minute("c", 5))
		if j.CreationTimestamp.UTC().Format("15:04:05") != "00:05:00" || j.Spec.Selector == nil || j.Status.Active != 1 {
			t.Errorf("%+v", j)
		}
		if s := w.said(); s["SuccessfulCreate"] != 5 || s["SawCompletedJob"] != 4 || s["SuccessfulDelete"] != 1 || len(s) != 3 {
			t.Errorf("events %v", s)
		}
		w.want(map[string]float64{"cronjob_controller_job_creation_skew_duration_seconds{}": 5})
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
				w := newWorld(t)
				defer w.end()
				w.cron("c", "* * * * *", "1h", func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = policy })
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
				for _, name := range w.jobNames() {
					all = append(all, number(name))
				}
				for _, ref := range w.cronJob("c").Status.Active {
					active = append(active, number(ref.Name))
				}
				if got := fmt.Sprint(all, " active ", active); got != want {
					t.Errorf("%s, want %s", got, want)
				}
				if n := len(w.pods()); n != len(all) {
					t.Errorf("%d pods, want %d", n, len(all))
				}
				if policy == batchv1.ForbidConcurrent {
					// It is made up for as soon as the other Job has ended.
					time.Sleep(time.Hour - 2*time.Minute)
					if got := w.cronJob("c").Status.Active; len(got) != 1 || got[0].Name != minute("c", 61) {
						t.Errorf("active %+v", got)
					}
				}
			})
		})
	}
}

func TestACronJobAcrossDowntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		w.cron("late", "*/10 * * * *", "1s", nil)
		w.cron("strict", "*/10 * * * *", "1s", func(cj *batchv1.CronJob) { cj.Spec.StartingDeadlineSeconds = ptr.To[int64](60) })
		w.cron("often", "* * * * *", "1s", nil)
		w.cron("suspended", "* * * * *", "1s", func(cj *batchv1.CronJob) { cj.Spec.Suspend = ptr.To(true) })
		for range 3 { // restarts start nothing twice
			time.Sleep(4 * time.Minute)
			w.stop()
			w.start()
		}
		if names := w.jobNames(); len(names) != 6 { // including the one that has just started
			t.Errorf("Jobs %v", names)
		}
		w.stop()
		time.Sleep(3 * time.Hour)
		w.start()
		time.Sleep(time.Second)
		want := []string{minute("late", 10), minute("late", 190), minute("often", 11), minute("often", 12), minute("often", 192), minute("strict", 10)}
		if names := w.jobNames(); !slices.Equal(names, want) {
			t.Errorf("Jobs %v, want %v", names, want)
		}
		if s := w.said(); s["MissSchedule"] != 1 || s["TooManyMissedTimes"] != 1 || s["MissingJob"]+s["UnexpectedJob"] > 0 {
			t.Errorf("events %v", s)
		}
	})
}

func TestAChangedScheduleBeginsNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		w.cron("c", "0 * * * *", "1s", nil)
		time.Sleep(90 * time.Minute)
		cj := w.cronJob("c")
		cj.Spec.Schedule = "15 * * * *"
		w.put(objects.Key(objects.CronJobs, cj), cj)
		time.Sleep(time.Minute)
		if names := w.jobNames(); !slices.Equal(names, []string{minute("c", 60)}) {
			t.Errorf("at once there are Jobs %v", names)
		}
		time.Sleep(time.Hour)
		if names := w.jobNames(); !slices.Equal(names, []string{minute("c", 60), minute("c", 135)}) {
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
				w := newWorld(t)
				defer w.end()
				w.cron("c", "* * * * *", "1h", nil)
				time.Sleep(2*time.Minute + time.Second)
				cj := w.cronJob("c")
				if storage.SetPropagation(cj, policy); policy == metav1.DeletePropagationBackground {
					w.write(func(tx *store.Tx) error { tx.Delete(objects.Key(objects.CronJobs, cj)); return nil })
				} else {
					storage.MarkDeleted(cj, time.Now(), 0)
					w.put(objects.Key(objects.CronJobs, cj), cj)
				}
				time.Sleep(5 * time.Minute)
				if w.cronJob("c") != nil {
					t.Error("it is still there")
				}
				if jobs, pods := len(w.jobNames()), len(w.pods()); jobs != want || pods != want {
					t.Errorf("%d Jobs and %d pods are left, want %d", jobs, pods, want)
				}
				if n := len(w.control.jobs.cronJobs.known) + len(w.control.jobs.cronJobs.controller); n > 0 {
					t.Errorf("%d records are left", n)
				}
			})
		})
	}
}

func TestAJobOfACronJobThatIsGoneGoesAsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		cj := w.cron("c", "0 0 1 1 *", "1s", nil)
		owned := func(name string, uid string) {
			j := simulate(name, "1h", "0")
			j.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(cj, batchv1.SchemeGroupVersion.WithKind("CronJob"))}
			if uid != "" {
				j.OwnerReferences[0].UID = "gone"
			}
			w.create(j)
		}
		owned("by-hand", "") // as kubectl create job --from=cronjob/c does
		owned("stray", "gone")
		time.Sleep(time.Second)
		if names := w.jobNames(); !slices.Equal(names, []string{"by-hand"}) {
			t.Errorf("Jobs %v", names)
		}
		if s := w.said(); s["UnexpectedJob"] != 1 || len(w.cronJob("c").Status.Active) > 0 {
			t.Errorf("events %v", s)
		}
	})
}

// scheduledSince returns since when a CronJob's schedule is what it is.
func (w *world) scheduledSince(name string) (since time.Time) {
	w.t.Helper()
	cj := w.cronJob(name)
	if err := w.store.View(func(s *store.Snapshot) (err error) {
		since, err = ScheduledSince(s, cj)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return since
}

// A schedule that is changed to a time which is past starts nothing, whether or not the daemon is started anew.
func TestAScheduleIsNotForTheTimeBeforeIt(t *testing.T) {
	for name, then := range map[string]func(w *world){
		"nothing happens":               func(*world) {},
		"the daemon is started anew":    func(w *world) { w.stop(); w.start() },
		"it is started some time later": func(w *world) { w.stop(); time.Sleep(time.Minute); w.start() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.end()
				w.cron("c", "0 5 * * *", "1s", nil)
				time.Sleep(2*time.Minute + 10*time.Second)
				cj := w.cronJob("c")
				cj.Spec.Schedule = "1 0 * * *" // a minute ago
				w.put(objects.Key(objects.CronJobs, cj), cj)
				then(w)
				time.Sleep(time.Hour)
				if jobs := w.jobNames(); len(jobs) > 0 {
					t.Errorf("it has started %v", jobs)
				}
				time.Sleep(24 * time.Hour)
				if jobs := w.jobNames(); !slices.Equal(jobs, []string{minute("c", 24*60+1)}) {
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
		w := newWorld(t)
		defer w.end()
		w.cron("c", "0 5 * * *", "1s", nil)
		time.Sleep(2 * time.Minute)
		w.stop()
		s, err := store.Open(w.path, store.Options{NoSync: true})
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
		w.start()
		time.Sleep(time.Hour)
		if jobs := w.jobNames(); len(jobs) > 0 {
			t.Errorf("it has started %v", jobs)
		}
	})
}

// A schedule that is edited while the clock is ahead is that of the time when the clock was put right.
func TestAScheduleThatIsEditedWhileTheClockIsAhead(t *testing.T) {
	for name, restart := range map[string]bool{"": false, "the daemon is started anew": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.end()
				w.cron("c", "0 5 1 6 *", "1s", nil)
				w.setClock(48 * time.Hour)
				cj := w.cronJob("c")
				cj.Spec.Schedule = "30 * * * *"
				w.put(objects.Key(objects.CronJobs, cj), cj)
				if since := w.scheduledSince("c"); time.Until(since) < 47*time.Hour {
					t.Errorf("since %v", since)
				}
				if restart {
					w.stop()
					w.clock = func() time.Time { return time.Now().Round(0) }
					w.start()
				} else {
					w.setClock(0)
					w.cron("other", "0 5 1 6 *", "1s", nil) // the next pass, which a node's lease brings within seconds
				}
				time.Sleep(29 * time.Minute)
				if since := w.scheduledSince("c"); since.After(time.Now()) {
					t.Errorf("since %v", since)
				}
				time.Sleep(2 * time.Minute)
				if jobs := w.jobNames(); !slices.Equal(jobs, []string{minute("c", 30)}) {
					t.Errorf("it has started %v", jobs)
				}
			})
		})
	}
}

func TestWhatIsKnownOfAScheduleGoesWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		cj := w.cron("c", "* * * * *", "1s", nil)
		time.Sleep(time.Second)
		stored := func() (n int) {
			synctest.Wait()
			if err := w.store.View(func(s *store.Snapshot) error {
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
		w.write(func(tx *store.Tx) error { tx.Delete(objects.Key(objects.CronJobs, cj)); return nil })
		if n := stored(); n != 0 {
			t.Errorf("%d are left", n)
		}
	})
}

// @every below a minute starts a Job in each minute, and says so: the last time is one at which a Job was started.
func TestACronJobOfSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		w.cron("c", "@every 25s", "1s", func(cj *batchv1.CronJob) {
			cj.Spec.TimeZone, cj.Spec.SuccessfulJobsHistoryLimit = nil, ptr.To[int32](100)
		})
		var times []string
		for range 300 {
			time.Sleep(time.Second)
			if last := w.cronJob("c").Status.LastScheduleTime; last != nil {
				if said := last.UTC().Format("04:05"); len(times) == 0 || times[len(times)-1] != said {
					times = append(times, said)
				}
			}
		}
		if jobs := w.jobNames(); len(jobs) != len(times) || fmt.Sprint(times) != "[00:25 01:15 02:05 03:20 04:10 05:00]" {
			t.Errorf("the Jobs %v for the times %v", jobs, times)
		}
	})
}
