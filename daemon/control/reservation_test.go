package control_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/causes"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
)

// asking is a Job that takes so much CPU for that long.
func asking(name, cpu, duration string) *batchv1.Job {
	j := controltest.Simulate(name, duration, "0")
	j.Spec.Template.Spec.Containers = controltest.Asking(cpu)
	return j
}

// TestALargeJobDoesNotStarve creates a small Job each half minute, so that the machine of three CPUs is never empty, and one that needs
// all of it. Restarts of the daemon do not change when it starts.
func TestALargeJobDoesNotStarve(t *testing.T) {
	for name, restarts := range map[string]bool{"": false, "with restarts": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := small(t)
				w.Stop()
				w.StarvationAfter = 10 * time.Minute
				w.Start()
				defer w.End()
				created := time.Now()
				for i := range 60 {
					w.Create(asking(fmt.Sprint("small", i), "1", "2m"))
					if i == 10 {
						w.Create(asking("large", "3", "1m"))
						created = time.Now()
					}
					time.Sleep(30 * time.Second)
					if restarts && i%7 == 0 {
						w.Stop()
						w.Start()
					}
				}
				large := w.Pods()[0]
				for _, p := range w.Pods() {
					if p.Labels[batchv1.JobNameLabel] == "large" {
						large = p
					}
				}
				if large.Status.StartTime == nil {
					t.Fatal("it has not started")
				}
				if waited := large.Status.StartTime.Sub(created); waited < 10*time.Minute || waited > 12*time.Minute+time.Second {
					t.Errorf("it has waited for %s", waited)
				}
				time.Sleep(time.Hour)
				for _, p := range w.Pods() {
					if !podspec.Ended(p) {
						t.Errorf("%s has not ended", p.Name)
					}
				}
			})
		})
	}
}

// TestADeadlineLetsAJobPass is about Jobs that end before there is room for the one that has waited for too long. A deadline that
// changes counts as it then is.
func TestADeadlineLetsAJobPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := small(t)
		w.Stop()
		w.StarvationAfter = time.Minute
		w.Start()
		defer w.End()
		within := func(j *batchv1.Job, seconds int64) *batchv1.Job {
			j.Spec.ActiveDeadlineSeconds, j.Spec.Template.Spec.TerminationGracePeriodSeconds = &seconds, ptr.To[int64](0)
			return j
		}
		w.Create(within(asking("long", "2", "1h"), 4000))
		synctest.Wait()
		w.Create(asking("large", "3", "1m"))
		time.Sleep(2 * time.Minute)
		w.Create(within(asking("short", "1", "1m"), 100))
		w.Create(asking("unknown", "1", "1m"))
		w.Create(within(asking("late", "1", "1m"), 7200))
		runs := func(name string) bool {
			for _, p := range w.Pods() {
				if p.Labels[batchv1.JobNameLabel] == name && p.Spec.NodeName != "" {
					return true
				}
			}
			return false
		}
		if !runs("short") || runs("unknown") || runs("late") {
			t.Errorf("short runs: %v, unknown: %v, late: %v", runs("short"), runs("unknown"), runs("late"))
		}
		facts, err := w.Control.JobFacts(t.Context(), w.Job("unknown"))
		if err != nil {
			t.Fatal(err)
		}
		e := causes.Job(causes.World{Rooms: facts.Rooms, Now: time.Now()}, w.Job("unknown"), podsOf(w, "unknown"))
		const want = "kept for another pod, which has waited for longer than --starvation-after"
		if c := why.Find(e.Causes, "WaitsForRoom"); c == nil || !strings.Contains(c.Message, want) {
			t.Errorf("%+v", e.Causes)
		}
		time.Sleep(2 * time.Minute)
		late := w.Job("late")
		late.Spec.ActiveDeadlineSeconds = ptr.To[int64](600)
		w.Put(objects.Key(objects.Jobs, late), late)
		if !runs("late") {
			t.Error("its deadline has become shorter, and it waits")
		}
	})
}

func podsOf(w *world, job string) (all []*corev1.Pod) {
	for _, p := range w.Pods() {
		if p.Labels[batchv1.JobNameLabel] == job {
			all = append(all, p)
		}
	}
	return all
}
