package hold_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/retry"
	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// grouped makes a Job of the group db that runs for a while.
func grouped(name, duration, codes, limit, policy string) *batchv1.Job {
	j := plain(name, duration, codes)
	j.Annotations = map[string]string{
		core.ConcurrencyGroupAnnotation: "db", core.ConcurrencyLimitAnnotation: limit, core.ConcurrencyPolicyAnnotation: policy,
	}
	return j
}

// alive are the Jobs that have pods which have not ended.
func alive(w *controltest.World) []string {
	of := map[string]bool{}
	for _, p := range w.Pods() {
		if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			of[p.Labels["job-name"]] = true
		}
	}
	return slices.Sorted(maps.Keys(of))
}

func aliveAre(t *testing.T, w *controltest.World, want ...string) {
	t.Helper()
	if got := alive(w); !slices.Equal(got, want) {
		t.Errorf("%v run, want %v", got, want)
	}
}

// places is how many are stored.
func places(w *controltest.World) (n int) {
	synctest.Wait()
	_ = w.Store.View(func(s *store.Snapshot) error { n = s.Count(objects.Places + "/"); return nil })
	return n
}

func TestAGroupOfJobs(t *testing.T) {
	play(t, "one after the other, retries and back-off included", func(t *testing.T, w *controltest.World) {
		first := grouped("a", "10s", "1", "1", "Queue")
		first.Spec.BackoffLimit = ptr.To[int32](1)
		w.Create(first)
		w.Create(grouped("b", "10s", "0", "1", "Queue"))
		w.Create(plain("other", "1h", "0"))
		time.Sleep(15 * time.Second) // a waits for its back-off
		aliveAre(t, w, "other")
		if b := w.Job("b"); batch.State(b) != "Waiting" || b.Status.StartTime != nil || len(b.Status.Conditions) > 0 {
			t.Errorf("%+v", b.Status)
		}
		facts, err := w.Control.JobFacts(t.Context(), w.Job("b"))
		if err != nil || facts.Group == nil || !slices.Equal(facts.Group.Holders, []string{"a"}) || facts.Group.Limit != 1 {
			t.Errorf("%+v %v", facts.Group, err)
		}
		w.Stop()
		w.Start()
		time.Sleep(10 * time.Second)
		aliveAre(t, w, "a", "other")
		time.Sleep(10 * time.Second)
		aliveAre(t, w, "b", "other")
		if a, b := w.Job("a"), w.Job("b"); !b.Status.StartTime.Equal(&batch.End(&a.Status).LastTransitionTime) {
			t.Errorf("b began at %v, a ended %+v", b.Status.StartTime, a.Status.Conditions)
		}
		time.Sleep(time.Minute)
		if places(w) != 0 {
			t.Errorf("%d places are left", places(w))
		}
	})
	play(t, "the order is that of priority, then of age", func(t *testing.T, w *controltest.World) {
		w.Create(grouped("a", "10s", "0", "1", "Queue"))
		for _, name := range []string{"b", "c", "d"} {
			time.Sleep(time.Second)
			w.Create(grouped(name, "10s", "0", "1", "Queue"))
		}
		first := w.Job("d")
		first.Annotations[batch.PrioritizedAnnotation] = time.Now().Format(time.RFC3339Nano)
		w.Put(objects.Key(objects.Jobs, first), first)
		time.Sleep(10 * time.Second)
		aliveAre(t, w, "d")
		time.Sleep(10 * time.Second)
		aliveAre(t, w, "b")
	})
	play(t, "a limit of two, and the smallest limit counts", func(t *testing.T, w *controltest.World) {
		for _, name := range []string{"a", "b", "c"} {
			w.Create(grouped(name, fmt.Sprint(10*len(name), "s"), "0", "2", "Queue"))
			time.Sleep(time.Second)
		}
		aliveAre(t, w, "a", "b")
		w.Create(grouped("alone", "1h", "0", "1", "Queue"))
		time.Sleep(10 * time.Second)
		aliveAre(t, w, "c")
		time.Sleep(10 * time.Second)
		aliveAre(t, w, "alone")
	})
	play(t, "Forbid", func(t *testing.T, w *controltest.World) {
		w.Create(grouped("a", "10s", "0", "1", "Forbid"))
		time.Sleep(time.Second)
		w.Create(grouped("b", "10s", "0", "1", "Forbid"))
		aliveAre(t, w, "a")
		b := w.Job("b")
		end := batch.End(&b.Status)
		if end == nil || end.Reason != batch.ReasonConcurrencyForbidden || !strings.Contains(end.Message, "group db has no place: 1 of 1 are taken") {
			t.Errorf("%+v", b.Status.Conditions)
		}
		if err := retry.Begin(b, retry.Request{}, "me", time.Now()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		w.Put(objects.Key(objects.Jobs, b), b)
		time.Sleep(time.Second)
		aliveAre(t, w, "b")
	})
	play(t, "Replace", func(t *testing.T, w *controltest.World) {
		a := grouped("a", "1h", "0", "1", "Replace")
		a.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
		w.Create(a)
		time.Sleep(time.Second)
		for _, name := range []string{"b", "c"} {
			w.Create(grouped(name, "1h", "0", "1", "Replace"))
			synctest.Wait()
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		aliveAre(t, w, "c")
		for _, name := range []string{"a", "b"} {
			if end := batch.End(&w.Job(name).Status); end == nil || end.Type != batchv1.JobFailed || end.Reason != batch.ReasonConcurrencyReplaced {
				t.Errorf("%s: %+v", name, end)
			}
		}
	})
	play(t, "a suspended Job gives its place back", func(t *testing.T, w *controltest.World) {
		w.Create(grouped("a", "1h", "0", "1", "Queue"))
		w.Create(grouped("b", "10s", "0", "1", "Queue"))
		time.Sleep(time.Second)
		suspend := func(yes bool) {
			a := w.Job("a")
			a.Spec.Suspend = ptr.To(yes)
			w.Put(objects.Key(objects.Jobs, a), a)
			time.Sleep(2 * time.Second)
		}
		suspend(true)
		aliveAre(t, w, "b")
		suspend(false)
		aliveAre(t, w, "b")
		time.Sleep(10 * time.Second)
		aliveAre(t, w, "a")
	})
	play(t, "one that is paused before it begins takes no place, and one that has begun keeps its own", func(t *testing.T, w *controltest.World) {
		pause := func(name string, yes bool) {
			j := w.Job(name)
			if delete(j.Annotations, batch.PausedAnnotation); yes {
				j.Annotations[batch.PausedAnnotation] = time.Now().Format(time.RFC3339Nano)
			}
			w.Put(objects.Key(objects.Jobs, j), j)
			synctest.Wait()
			time.Sleep(time.Second)
		}
		before := grouped("before", "20s", "0", "1", "Queue")
		before.Annotations[batch.PausedAnnotation] = time.Now().Format(time.RFC3339Nano)
		before.Spec.ActiveDeadlineSeconds = ptr.To[int64](60)
		w.Create(before)
		time.Sleep(time.Second)
		if j := w.Job("before"); places(w) != 0 || j.Status.StartTime != nil || batch.State(j) != "Paused" {
			t.Errorf("%d places, %+v", places(w), j.Status)
		}
		w.Create(grouped("a", "20s", "0", "1", "Queue"))
		time.Sleep(time.Second)
		w.Create(grouped("waits", "20s", "0", "1", "Queue"))
		time.Sleep(time.Second)
		pause("waits", true)
		pause("before", false)
		aliveAre(t, w, "a")
		if _, paused := batch.PausedSince(&w.Job("before").Status); paused {
			t.Error("it was continued, waits for a place, and says that it is paused")
		}
		w.Stop()
		w.Start()
		time.Sleep(20 * time.Second)
		aliveAre(t, w, "before")
		if j := w.Job("before"); batch.PausedFor(j.Annotations) != 0 {
			t.Errorf("what was before its start counts as a pause: %v", j.Annotations)
		}
		pause("before", true)
		pause("waits", false)
		time.Sleep(time.Hour)
		aliveAre(t, w, "before")
		pause("before", false)
		time.Sleep(20 * time.Second)
		aliveAre(t, w, "waits")
		time.Sleep(time.Minute)
		if places(w) != 0 {
			t.Errorf("%d places are left", places(w))
		}
	})
	play(t, "one that is paused just after it got its place gives it back", func(t *testing.T, w *controltest.World) {
		a := grouped("a", "10s", "0", "1", "Queue")
		a.Spec.Suspend = ptr.To(true)
		w.Create(a)
		time.Sleep(time.Second)
		a = w.Job("a")
		a.Spec.Suspend = ptr.To(false)
		a.Annotations[batch.PausedAnnotation] = time.Now().Format(time.RFC3339Nano)
		w.Put(objects.Key(objects.Jobs, a), a)
		time.Sleep(time.Second)
		w.Create(grouped("b", "10s", "0", "1", "Queue"))
		time.Sleep(time.Second)
		aliveAre(t, w, "b")
	})
	play(t, "one that is deleted holds its place until its pods are gone, over a restart", func(t *testing.T, w *controltest.World) {
		a := grouped("a", "1h", "0", "1", "Queue")
		a.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox", Lifecycle: &corev1.Lifecycle{
			PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 20}},
		}}}
		w.Create(a)
		w.Create(grouped("b", "1h", "0", "1", "Queue"))
		time.Sleep(time.Second)
		remove(w, "a")
		time.Sleep(5 * time.Second)
		aliveAre(t, w, "a")
		w.Stop()
		w.Start()
		time.Sleep(5 * time.Second)
		aliveAre(t, w, "a")
		time.Sleep(time.Minute)
		aliveAre(t, w, "b")
	})
	play(t, "one that was set aside keeps nobody waiting", func(t *testing.T, w *controltest.World) {
		for _, name := range []string{"a", "b", "c"} {
			w.Create(grouped(name, "10s", "0", "1", "Queue"))
			time.Sleep(time.Second)
		}
		if err := w.Aside.Hang(aside.Hang{Concern: "jobs", Key: store.Key(objects.Jobs, "default", "b"), At: time.Now()}); err != nil {
			t.Fatal(err)
		}
		w.Stop()
		w.Start()
		time.Sleep(10 * time.Second)
		aliveAre(t, w, "c")
		b := w.Job("b")
		b.Annotations["try"] = "again"
		w.Put(objects.Key(objects.Jobs, b), b)
		time.Sleep(10 * time.Second)
		aliveAre(t, w, "b")
	})
	limit := func(w *controltest.World, n string, more ...string) {
		ns := &corev1.Namespace{}
		ns.Name = "default"
		if n != "" {
			ns.Annotations = map[string]string{core.ConcurrencyLimitAnnotation: n}
		}
		for i := 0; i < len(more); i += 2 {
			ns.Annotations[more[i]] = more[i+1]
		}
		w.Put(store.Key(objects.Namespaces, "", "default"), ns)
		synctest.Wait()
		time.Sleep(time.Second)
	}
	play(t, "Jobs that run when their namespace gets a limit count", func(t *testing.T, w *controltest.World) {
		w.Create(plain("a", "30s", "0"))
		w.Create(plain("b", "30s", "0"))
		w.Create(plain("c", "2h", "0"))
		w.Create(grouped("other", "2h", "0", "1", "Queue"))
		time.Sleep(5 * time.Second)
		limit(w, "2")
		w.Create(plain("d", "1h", "0"))
		w.Create(plain("e", "1h", "0"))
		time.Sleep(5 * time.Second)
		aliveAre(t, w, "a", "b", "c", "other")
		if n := places(w); n != 4 {
			t.Errorf("%d places", n)
		}
		w.Stop()
		w.Start()
		time.Sleep(30 * time.Second)
		aliveAre(t, w, "c", "d", "other")
		limit(w, "") // and without one none has a place
		aliveAre(t, w, "c", "d", "e", "other")
		if n := places(w); n != 1 {
			t.Errorf("%d places without a limit", n)
		}
		limit(w, "1", core.ConcurrencyPolicyAnnotation, "Replace")
		w.Create(plain("f", "1h", "0"))
		time.Sleep(time.Minute)
		aliveAre(t, w, "f", "other")
	})
	play(t, "one that runs goes into another group, and out of it", func(t *testing.T, w *controltest.World) {
		regroup := func(name, group string) {
			j := w.Job(name)
			if delete(j.Annotations, core.ConcurrencyGroupAnnotation); group != "" {
				j.Annotations[core.ConcurrencyGroupAnnotation] = group
			} else {
				j.Annotations = nil
			}
			w.Put(objects.Key(objects.Jobs, j), j)
			synctest.Wait()
			time.Sleep(time.Second)
		}
		w.Create(grouped("a", "1h", "0", "1", "Queue"))
		time.Sleep(time.Second)
		w.Create(grouped("b", "1h", "0", "1", "Queue"))
		x := grouped("x", "1h", "0", "1", "Queue")
		x.Annotations[core.ConcurrencyGroupAnnotation] = "x"
		time.Sleep(time.Second)
		aliveAre(t, w, "a")
		regroup("a", "x")
		aliveAre(t, w, "a", "b")
		w.Create(x)
		time.Sleep(time.Second)
		w.Stop()
		w.Start()
		time.Sleep(time.Second)
		aliveAre(t, w, "a", "b")
		regroup("a", "")
		aliveAre(t, w, "a", "b", "x")
	})
	play(t, "all Jobs of a namespace", func(t *testing.T, w *controltest.World) {
		w.Create(plain("before", "10s", "0"))
		limit(w, "1")
		for _, name := range []string{"a", "b", "c"} {
			w.Create(plain(name, "1h", "0"))
			time.Sleep(time.Second)
		}
		w.Create(grouped("other", "1h", "0", "1", "Queue"))
		time.Sleep(20 * time.Second)
		aliveAre(t, w, "a", "other")
		w.Stop()
		w.Start()
		limit(w, "2")
		aliveAre(t, w, "a", "b", "other")
		limit(w, "")
		aliveAre(t, w, "a", "b", "c", "other")
	})
}

// However Jobs of a group come and go, and whenever the daemon is restarted: no more than its limit run at a time, none starts anew,
// and all of them end.
func TestAGroupNeverExceedsItsLimit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.IntRange(1, 3).Draw(rt, "limit")
		n := rapid.IntRange(2, 8).Draw(rt, "Jobs")
		var jobs []*batchv1.Job
		for i := range n {
			policy := rapid.SampledFrom([]string{"Queue", "Queue", "Queue", "Replace", "Forbid"}).Draw(rt, "policy")
			codes := rapid.SampledFrom([]string{"0", "1"}).Draw(rt, "exit codes")
			j := grouped(fmt.Sprint("j", i), fmt.Sprintf("%ds", rapid.IntRange(1, 40).Draw(rt, "seconds")), codes, fmt.Sprint(limit), policy)
			j.Spec.BackoffLimit = ptr.To(rapid.Int32Range(0, 1).Draw(rt, "backoffLimit"))
			j.Spec.Parallelism = ptr.To(rapid.Int32Range(1, 2).Draw(rt, "parallelism"))
			j.Spec.Completions = j.Spec.Parallelism
			jobs = append(jobs, j)
		}
		const steps = 60
		pauses := rapid.SliceOfN(rapid.IntRange(0, 8), steps, steps).Draw(rt, "pauses")
		restarts := rapid.SliceOfN(rapid.IntRange(0, 5), steps, steps).Draw(rt, "restarts")
		deleted := rapid.SliceOfN(rapid.IntRange(0, 40), steps, steps).Draw(rt, "deletions")
		synctest.Test(t, func(t *testing.T) {
			w := controltest.New(t)
			defer w.End()
			for i := range steps {
				if i < n {
					w.Create(jobs[i])
				}
				if name := fmt.Sprint("j", deleted[i]); deleted[i] < i && w.Job(name) != nil {
					remove(w, name)
				}
				if restarts[i] == 0 {
					w.Stop()
					w.Start()
				}
				for range pauses[i] {
					time.Sleep(500 * time.Millisecond)
					if running := alive(w); len(running) > limit {
						rt.Fatalf("%v run, and the limit is %d", running, limit)
					}
				}
			}
			time.Sleep(time.Hour)
			for i := range n {
				if j := w.Job(fmt.Sprint("j", i)); j != nil && batch.End(&j.Status) == nil {
					rt.Errorf("%s has not ended: %+v", j.Name, j.Status)
				}
			}
			if left := places(w); left != 0 {
				rt.Errorf("%d places are left", left)
			}
		})
	})
}
