package hold_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/retry"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// after makes a Job that waits for others, and then runs for a while.
func after(name, needs, duration, codes string) *batchv1.Job {
	j := controltest.Simulate(name, duration, codes)
	j.Spec.Suspend, j.Spec.BackoffLimit = ptr.To(true), ptr.To[int32](0)
	j.Annotations = map[string]string{batch.AfterAnnotation: needs}
	return j
}

func plain(name, duration, codes string) *batchv1.Job {
	j := controltest.Simulate(name, duration, codes)
	j.Spec.BackoffLimit = ptr.To[int32](0)
	return j
}

// state is that of a Job, once everything that is due has happened.
func state(w *controltest.World, name string) string {
	j := w.Job(name)
	if j == nil {
		return "gone"
	}
	return batch.State(j)
}

func remove(w *controltest.World, name string) {
	w.Write(func(tx *store.Tx) error { tx.Delete(store.Key(objects.Jobs, "default", name)); return nil })
	synctest.Wait()
}

// play plays one case in a world of its own.
func play(t *testing.T, name string, do func(*testing.T, *controltest.World)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := controltest.New(t)
			defer w.End()
			do(t, w)
		})
	})
}

func expect(t *testing.T, w *controltest.World, name, want string) {
	t.Helper()
	if got := state(w, name); got != want {
		t.Errorf("%s is %s, want %s; %q", name, got, want, w.Events(name))
	}
}

func TestAJobStartsAfterOthers(t *testing.T) {
	play(t, "in any order, and in the moment in which the last ends", func(t *testing.T, w *controltest.World) {
		w.Create(after("b", "a,x:any", "1m", "0"))
		w.Create(plain("a", "30s", "0"))
		w.Create(plain("x", "40s", "1"))
		time.Sleep(39 * time.Second)
		expect(t, w, "a", "Complete")
		expect(t, w, "b", "Waiting")
		time.Sleep(2 * time.Second)
		if b, x := w.Job("b"), w.Job("x"); batch.State(b) != "Running" || !b.Status.StartTime.Equal(&batch.End(&x.Status).LastTransitionTime) {
			t.Errorf("%s at %v, after %v", batch.State(b), b.Status.StartTime, x.Status.Conditions)
		}
		if said := strings.Join(w.Events("b"), "\n"); !strings.Contains(said, "NeedsMet: a has completed, x has failed (jobd.dev/after)") {
			t.Errorf("%s", said)
		}
		if w.Job("b").Annotations[batch.ResumedAnnotation] == "" {
			t.Error("it is not recorded")
		}
	})
	play(t, "one that is paused when they have ended begins when it is continued", func(t *testing.T, w *controltest.World) {
		b := after("b", "a", "1m", "0")
		b.Annotations[batch.PausedAnnotation] = time.Now().Format(time.RFC3339Nano)
		w.Create(b)
		w.Create(plain("a", "30s", "0"))
		time.Sleep(time.Minute)
		expect(t, w, "a", "Complete")
		expect(t, w, "b", "Paused")
		if j := w.Job("b"); j.Status.StartTime != nil || j.Status.Active > 0 {
			t.Errorf("it has begun: %+v", j.Status)
		}
		w.Stop()
		w.Start()
		b = w.Job("b")
		delete(b.Annotations, batch.PausedAnnotation)
		w.Put(objects.Key(objects.Jobs, b), b)
		time.Sleep(time.Second)
		expect(t, w, "b", "Running")
	})
	play(t, "at once, if they have ended", func(t *testing.T, w *controltest.World) {
		w.Create(plain("a", "1s", "0"))
		time.Sleep(10 * time.Second)
		w.Create(after("b", "a", "1m", "0"))
		time.Sleep(time.Second)
		expect(t, w, "b", "Running")
	})
	play(t, "a failure, and another attempt", func(t *testing.T, w *controltest.World) {
		w.Create(after("b", "a", "1m", "0"))
		w.Create(after("clean", "a:failed", "1m", "0"))
		w.Create(plain("a", "1s", "1"))
		time.Sleep(10 * time.Second)
		expect(t, w, "a", "Failed")
		expect(t, w, "b", "Waiting")
		expect(t, w, "clean", "Running")
		a := w.Job("a")
		if err := retry.Begin(a, retry.Request{}, "me", time.Now()); err != nil {
			t.Fatal(err)
		}
		a.Spec.Template.Annotations["jobd.dev/simulate-exit-code"] = "0"
		w.Put(objects.Key(objects.Jobs, a), a)
		w.Stop()
		w.Start()
		time.Sleep(10 * time.Second)
		expect(t, w, "b", "Running")
	})
	play(t, "what is gone is answered from the history", func(t *testing.T, w *controltest.World) {
		w.Create(after("b", "a,x", "1m", "0"))
		a := plain("a", "1s", "0")
		a.Spec.TTLSecondsAfterFinished = ptr.To[int32](1)
		w.Create(a)
		time.Sleep(time.Minute)
		expect(t, w, "a", "gone")
		w.Stop()
		w.Start()
		w.Create(plain("x", "1s", "0"))
		time.Sleep(5 * time.Second)
		expect(t, w, "b", "Running")
	})
	play(t, "a former run does not count", func(t *testing.T, w *controltest.World) {
		a := plain("a", "1s", "0")
		a.Spec.TTLSecondsAfterFinished = ptr.To[int32](1)
		w.Create(a.DeepCopy())
		time.Sleep(time.Minute)
		w.Create(after("b", "a", "1m", "0"))
		expect(t, w, "b", "Waiting")
		w.Stop()
		w.Start()
		expect(t, w, "b", "Waiting")
		w.Create(a)
		time.Sleep(5 * time.Second)
		expect(t, w, "b", "Running")
	})
	play(t, "one that is deleted has ended, but not well", func(t *testing.T, w *controltest.World) {
		w.Create(plain("a", "1h", "0"))
		w.Create(after("b", "a", "1m", "0"))
		w.Create(after("c", "a:any", "1m", "0"))
		remove(w, "a")
		time.Sleep(time.Second)
		expect(t, w, "b", "Waiting")
		expect(t, w, "c", "Running")
	})
	play(t, "a person decides otherwise", func(t *testing.T, w *controltest.World) {
		w.Create(after("b", "a", "1h", "0"))
		b := w.Job("b")
		batch.Resume(b, time.Now())
		w.Put(objects.Key(objects.Jobs, b), b)
		time.Sleep(time.Second)
		expect(t, w, "b", "Running")
		b = w.Job("b")
		b.Spec.Suspend = ptr.To(true)
		w.Put(objects.Key(objects.Jobs, b), b)
		w.Create(plain("a", "1s", "0"))
		time.Sleep(10 * time.Second)
		expect(t, w, "b", "Suspended")
	})
	play(t, "a chain", func(t *testing.T, w *controltest.World) {
		for i := 9; i > 0; i-- {
			w.Create(after(fmt.Sprintf("j%d", i), fmt.Sprintf("j%d", i-1), "10s", "0"))
		}
		w.Create(plain("j0", "10s", "0"))
		time.Sleep(101 * time.Second)
		expect(t, w, "j9", "Complete")
	})
	play(t, "many wait for one", func(t *testing.T, w *controltest.World) {
		for i := range 1500 { // more than a pass writes
			w.Create(after(fmt.Sprintf("b%d", i), "a", "1h", "0"))
		}
		w.Create(plain("a", "1s", "0"))
		time.Sleep(time.Second)
		synctest.Wait()
		w.Stop()
		w.Start()
		time.Sleep(5 * time.Second)
		for i := range 1500 {
			if j := w.Job(fmt.Sprintf("b%d", i)); *j.Spec.Suspend {
				t.Fatalf("%s waits", j.Name)
			}
		}
	})
	play(t, "a run of a CronJob waits too", func(t *testing.T, w *controltest.World) {
		w.CreateCronJob("c", "* * * * *", "1h", func(cj *batchv1.CronJob) {
			cj.Spec.JobTemplate.Annotations = map[string]string{batch.AfterAnnotation: "a"}
			cj.Spec.JobTemplate.Spec.Suspend = ptr.To(true)
		})
		time.Sleep(61 * time.Second)
		var run *batchv1.Job
		synctest.Wait()
		_ = w.Store.View(func(s *store.Snapshot) error {
			return objects.Each(s, objects.Jobs, func(_ string, j *batchv1.Job) error { run = j; return nil })
		})
		if run == nil {
			t.Fatal("no run")
		}
		expect(t, w, run.Name, "Waiting")
		w.Create(plain("a", "1s", "0"))
		time.Sleep(5 * time.Second)
		expect(t, w, run.Name, "Running")
	})
}

// Whatever waits for what, in whatever order it is created, over restarts: a Job starts once, not before what it needs, and as soon
// as that has ended as it needs.
func TestRandomChains(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 8).Draw(rt, "Jobs")
		name := func(i int) string { return fmt.Sprintf("j%d", i) }
		jobs := make([]*batchv1.Job, n)
		needs := make([][]batch.Need, n)
		for i := range n {
			duration := fmt.Sprintf("%ds", rapid.IntRange(1, 30).Draw(rt, "seconds"))
			code := fmt.Sprint(rapid.IntRange(0, 1).Draw(rt, "exit code"))
			var text []string
			for k := range i {
				if when := rapid.SampledFrom([]string{"", "", "ok", "any", "failed"}).Draw(rt, "need"); when != "" {
					text = append(text, name(k)+":"+when)
				}
			}
			if jobs[i] = plain(name(i), duration, code); len(text) > 0 {
				jobs[i] = after(name(i), strings.Join(text, ","), duration, code)
				needs[i] = batch.After(jobs[i].Annotations)
			}
		}
		order := rapid.Permutation(jobs).Draw(rt, "order")
		pauses := rapid.SliceOfN(rapid.IntRange(0, 20), n, n).Draw(rt, "pauses")
		restarts := rapid.SliceOfN(rapid.Bool(), 12, 12).Draw(rt, "restarts")
		synctest.Test(t, func(t *testing.T) {
			w := controltest.New(t)
			defer w.End()
			for i, j := range order {
				w.Create(j)
				time.Sleep(time.Duration(pauses[i]) * time.Second)
			}
			for _, restart := range restarts {
				if time.Sleep(25 * time.Second); restart {
					synctest.Wait()
					w.Stop()
					w.Start()
				}
			}
			for i := range n {
				j := w.Job(name(i))
				met, last := true, j.CreationTimestamp.Time
				for _, need := range needs[i] {
					end := batch.End(&w.Job(need.Name).Status)
					if met = met && end != nil && need.Met(end.Type); end != nil && end.LastTransitionTime.After(last) {
						last = end.LastTransitionTime.Time
					}
				}
				switch {
				case !met && (j.Status.StartTime != nil || batch.State(j) != batch.StateWaiting):
					rt.Errorf("%s is %s though its needs are not met", j.Name, batch.State(j))
				case met && (batch.End(&j.Status) == nil || j.Status.StartTime.Unix() != last.Unix()):
					rt.Errorf("%s is %s, started at %v, could at %v", j.Name, batch.State(j), j.Status.StartTime, last)
				}
				created := 0
				for _, e := range w.Events(j.Name) {
					if strings.Contains(e, "SuccessfulCreate") {
						created++
					}
				}
				if met && created != 1 || !met && created != 0 {
					rt.Errorf("%s: %d pods", j.Name, created)
				}
			}
		})
	})
}

// at makes a Job that waits until so long after the beginning, and for others if it names some.
func at(name string, in time.Duration, needs string) *batchv1.Job {
	j := after(name, needs, "1m", "0")
	if needs == "" {
		delete(j.Annotations, batch.AfterAnnotation)
	}
	j.Annotations[batch.StartAtAnnotation] = time.Now().Add(in).Format(time.RFC3339)
	return j
}

func TestAJobStartsAtATime(t *testing.T) {
	play(t, "at that very second", func(t *testing.T, w *controltest.World) {
		w.Create(at("a", time.Hour, ""))
		start := time.Now().Add(time.Hour).Truncate(time.Second)
		time.Sleep(time.Hour - time.Second)
		expect(t, w, "a", "Waiting")
		time.Sleep(2 * time.Second)
		if a := w.Job("a"); batch.State(a) != "Running" || !a.Status.StartTime.Time.Equal(start) || a.Annotations[batch.ResumedAnnotation] == "" {
			t.Errorf("%s at %v, wanted at %v", batch.State(a), a.Status.StartTime, start)
		}
		if said := strings.Join(w.Events("a"), "\n"); !strings.Contains(said, "StartTime: Its time ") || strings.Contains(said, "did not run") {
			t.Errorf("%s", said)
		}
	})
	play(t, "a time that is past is now", func(t *testing.T, w *controltest.World) {
		w.Create(at("a", -time.Hour, ""))
		time.Sleep(time.Second)
		expect(t, w, "a", "Running")
		if said := strings.Join(w.Events("a"), "\n"); strings.Contains(said, "did not run") {
			t.Errorf("%s", said)
		}
	})
	play(t, "once, although jobd is started again and again", func(t *testing.T, w *controltest.World) {
		w.Create(at("a", time.Hour, ""))
		for range 3 {
			time.Sleep(10 * time.Minute)
			w.Stop()
			w.Start()
			expect(t, w, "a", "Waiting")
		}
		time.Sleep(30*time.Minute + time.Second)
		expect(t, w, "a", "Running")
	})
	play(t, "at once, when the machine was off then, which is said", func(t *testing.T, w *controltest.World) {
		w.Create(at("a", time.Hour, ""))
		time.Sleep(time.Minute)
		w.Stop()
		time.Sleep(3 * time.Hour)
		w.Start()
		time.Sleep(time.Second)
		expect(t, w, "a", "Running")
		if said := strings.Join(w.Events("a"), "\n"); !strings.Contains(said, "2h1m0s ago: jobd did not run then") {
			t.Errorf("%s", said)
		}
	})
	play(t, "with others, when both hold", func(t *testing.T, w *controltest.World) {
		w.Create(plain("x", "30m", "0"))
		w.Create(at("late", time.Hour, "x"))
		w.Create(at("early", time.Minute, "x"))
		time.Sleep(30*time.Minute + time.Second)
		expect(t, w, "early", "Running")
		expect(t, w, "late", "Waiting")
		time.Sleep(30 * time.Minute)
		expect(t, w, "late", "Running")
		if said := strings.Join(w.Events("early"), "\n"); !strings.Contains(said, "NeedsMet: x has completed (jobd.dev/after), and its time ") {
			t.Errorf("%s", said)
		}
	})
	play(t, "whoever resumes it starts it now, and once", func(t *testing.T, w *controltest.World) {
		w.Create(at("a", time.Hour, ""))
		j := w.Job("a")
		j.Spec.Suspend = ptr.To(false)
		w.Put(objects.Key(objects.Jobs, j), j)
		time.Sleep(time.Second)
		expect(t, w, "a", "Running")
		time.Sleep(2 * time.Hour)
		expect(t, w, "a", "Complete")
		if said := strings.Join(w.Events("a"), "\n"); strings.Contains(said, "StartTime") {
			t.Errorf("%s", said)
		}
	})
	play(t, "another time counts instead", func(t *testing.T, w *controltest.World) {
		w.Create(at("a", time.Hour, ""))
		j := w.Job("a")
		j.Annotations[batch.StartAtAnnotation] = time.Now().Add(time.Minute).Format(time.RFC3339)
		w.Put(objects.Key(objects.Jobs, j), j)
		time.Sleep(time.Minute + time.Second)
		expect(t, w, "a", "Running")
	})
}
