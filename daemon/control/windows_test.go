package control_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// windowed makes a Job with a window, whose pods run one after the other.
func windowed(name, text, end, duration string, pods int32) *batchv1.Job {
	j := controltest.Simulate(name, duration, "0")
	j.Spec.Completions, j.Spec.Parallelism, j.Spec.BackoffLimit = &pods, ptr.To[int32](1), ptr.To[int32](0)
	if text != "" {
		j.Annotations = inWindow(text, end)
	}
	return j
}

func inWindow(text, end string) map[string]string {
	return map[string]string{core.WindowAnnotation: text, core.WindowTimeZoneAnnotation: "UTC", core.WindowEndAnnotation: end}
}

// at waits until a time of the day that tests begin, or so many days later, and a second.
func (w *world) at(begin time.Time, day int, clock string) {
	w.T.Helper()
	d, err := time.Parse("15:04", clock)
	if err != nil {
		w.T.Fatal(err)
	}
	until := begin.AddDate(0, 0, day).Add(time.Duration(d.Hour())*time.Hour + time.Duration(d.Minute())*time.Minute + time.Second)
	time.Sleep(time.Until(until))
	synctest.Wait()
}

// wants compares the state of a Job, and how many of its pods have succeeded and run.
func (w *world) wants(name, state string, succeeded, running int) {
	w.T.Helper()
	j, n := w.Job(name), 0
	for _, p := range w.Pods() {
		if p.Labels[batchv1.JobNameLabel] == name && p.Status.Phase == corev1.PodRunning {
			n++
		}
	}
	if got := batch.State(j); got != state || int(j.Status.Succeeded) != succeeded || n != running || j.Status.Failed != 0 {
		w.T.Errorf("%s at %s: %s with %d, %d running, want %s with %d, %d running; %+v", name, time.Now().UTC().Format("Mon 15:04"), got,
			j.Status.Succeeded, n, state, succeeded, running, j.Status)
	}
}

func today(t *testing.T) time.Time {
	now := time.Now().UTC()
	begin := now.Truncate(24 * time.Hour)
	if now.Sub(begin) > time.Minute {
		t.Fatal(now)
	}
	return begin
}

func TestWindows(t *testing.T) {
	play := func(name string, do func(t *testing.T, w *world, begin time.Time)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := small(t)
				defer w.End()
				do(t, w, today(t))
			})
		})
	}
	play("pods that run finish, and no others start", func(t *testing.T, w *world, begin time.Time) {
		w.Create(windowed("a", "01:00-02:00", core.WindowFinish, "40m", 3))
		w.at(begin, 0, "00:30")
		w.wants("a", batch.StateWaiting, 0, 0)
		if j := w.Job("a"); j.Status.StartTime != nil || len(w.Pods()) > 0 {
			t.Errorf("it has begun: %+v", j.Status)
		}
		w.at(begin, 0, "01:00")
		w.wants("a", batch.StateRunning, 0, 1)
		w.at(begin, 0, "02:10")
		w.wants("a", batch.StateRunning, 1, 1)
		w.at(begin, 0, "02:20")
		w.wants("a", batch.StateWaiting, 2, 0)
		if said := strings.Join(w.Events(podOfJobWaiting(w, "a")), "\n"); !strings.Contains(said, "which opens at 2000-01-02T01:00:00Z") {
			t.Errorf("%s", said)
		}
		w.at(begin, 1, "00:59")
		w.wants("a", batch.StateWaiting, 2, 0)
		w.at(begin, 1, "01:00")
		w.wants("a", batch.StateRunning, 2, 1)
		w.at(begin, 1, "01:41")
		w.wants("a", batch.StateComplete, 3, 0)
		if c, _ := batch.WindowClosed(&w.Job("a").Status); c != nil {
			t.Errorf("%v", c)
		}
	})
	play("pods are frozen until it opens", func(t *testing.T, w *world, begin time.Time) {
		j := windowed("a", "00:00-02:00", core.WindowPause, "150m", 1)
		j.Spec.ActiveDeadlineSeconds = ptr.To[int64](3 * 3600)
		w.Create(j)
		w.at(begin, 0, "02:00")
		w.wants("a", batch.StatePaused, 0, 1)
		if _, frozen := core.PausedSince(podOfJob(w, "a")); !frozen {
			t.Errorf("%+v", podOfJob(w, "a").Status)
		}
		w.Stop()
		w.Start()
		w.at(begin, 0, "23:59")
		w.wants("a", batch.StatePaused, 0, 1)
		w.at(begin, 1, "00:00")
		w.wants("a", batch.StateRunning, 0, 1)
		w.at(begin, 1, "00:31")
		w.wants("a", batch.StateComplete, 1, 0)
	})
	play("pods are stopped, and others start when it opens", func(t *testing.T, w *world, begin time.Time) {
		j := windowed("a", "00:00-02:00", core.WindowStop, "90m", 2)
		j.Spec.ActiveDeadlineSeconds = ptr.To[int64](125 * 60)
		w.Create(j)
		w.at(begin, 0, "01:31")
		w.wants("a", batch.StateRunning, 1, 1)
		w.at(begin, 0, "02:00")
		w.wants("a", batch.StateWaiting, 1, 0)
		w.at(begin, 1, "00:00")
		w.wants("a", batch.StateRunning, 1, 1)
		w.at(begin, 1, "01:31")
		w.wants("a", batch.StateComplete, 2, 0)
	})
	play("of the namespace, unless the Job has its own", func(t *testing.T, w *world, begin time.Time) {
		w.namespaceWindow(inWindow("01:00-02:00", core.WindowFinish))
		w.Create(windowed("a", "", "", "1m", 1))
		w.Create(windowed("own", "00:00-24:00", core.WindowFinish, "30m", 1))
		w.at(begin, 0, "00:10")
		w.wants("a", batch.StateWaiting, 0, 0)
		w.wants("own", batch.StateRunning, 0, 1)
		w.namespaceWindow(inWindow("03:00-04:00", core.WindowFinish))
		w.Stop()
		w.Start()
		w.at(begin, 0, "01:00")
		w.wants("a", batch.StateWaiting, 0, 0)
		if _, opens := batch.WindowClosed(&w.Job("a").Status); !opens.Equal(begin.Add(3 * time.Hour)) {
			t.Errorf("%v", opens)
		}
		w.namespaceWindow(nil)
		time.Sleep(time.Second)
		w.wants("a", batch.StateRunning, 0, 1)
	})
	play("it opens and closes while jobd does not run", func(t *testing.T, w *world, begin time.Time) {
		w.Create(windowed("late", "01:00-02:00", core.WindowFinish, "1m", 1))
		w.Create(windowed("missed", "01:00-01:20", core.WindowFinish, "1m", 1))
		w.Create(windowed("paused", "00:00-01:00", core.WindowPause, "2h", 1))
		w.at(begin, 0, "00:30")
		w.Stop()
		w.at(begin, 0, "01:30")
		w.Start()
		time.Sleep(time.Second)
		w.wants("late", batch.StateRunning, 0, 1)
		w.wants("missed", batch.StateWaiting, 0, 0)
		w.wants("paused", batch.StatePaused, 0, 1)
		w.at(begin, 1, "01:00")
		w.wants("missed", batch.StateRunning, 0, 1)
	})
	play("one that is closed takes no place in a group", func(t *testing.T, w *world, begin time.Time) {
		first := windowed("first", "01:00-02:00", core.WindowFinish, "30m", 1)
		second := windowed("second", "", "", "2h", 1)
		second.Annotations = map[string]string{}
		for _, j := range []*batchv1.Job{first, second} {
			j.Annotations[core.ConcurrencyGroupAnnotation] = "g"
			w.Create(j)
		}
		w.at(begin, 0, "00:01")
		w.wants("second", batch.StateRunning, 0, 1)
		w.at(begin, 0, "01:01")
		w.wants("first", batch.StateWaiting, 0, 0)
		w.at(begin, 0, "02:01")
		w.wants("first", batch.StateWaiting, 0, 0) // it was closed before there was a place
		w.at(begin, 1, "01:00")
		w.wants("first", batch.StateRunning, 0, 1)
	})
	play("together with a time", func(t *testing.T, w *world, begin time.Time) {
		j := windowed("a", "01:00-02:00", core.WindowFinish, "1m", 1)
		j.Spec.Suspend, j.Annotations[batch.StartAtAnnotation] = ptr.To(true), begin.Add(90*time.Minute).Format(time.RFC3339)
		w.Create(j)
		w.at(begin, 0, "01:29")
		w.wants("a", batch.StateWaiting, 0, 0)
		w.at(begin, 0, "01:30")
		w.wants("a", batch.StateRunning, 0, 1)
	})
	play("another window", func(t *testing.T, w *world, begin time.Time) {
		w.Create(windowed("a", "01:00-02:00", core.WindowFinish, "1m", 1))
		j := w.Job("a")
		j.Annotations[core.WindowAnnotation] = "00:00-24:00"
		w.Put(objects.Key(objects.Jobs, j), j)
		time.Sleep(time.Second)
		w.wants("a", batch.StateRunning, 0, 1)
	})
}

// podOfJobWaiting returns the name of a pod of a Job that is not bound.
func podOfJobWaiting(w *world, job string) string {
	for _, p := range w.Pods() {
		if p.Labels[batchv1.JobNameLabel] == job && p.Spec.NodeName == "" {
			return p.Name
		}
	}
	return ""
}

// namespaceWindow changes the annotations of the namespace of all Jobs.
func (w *world) namespaceWindow(annotations map[string]string) {
	ns := &corev1.Namespace{}
	key := store.Key(objects.Namespaces, "", "default")
	if !w.Read(key, ns) {
		ns.Name, ns.UID = "default", "default"
	}
	ns.Annotations = annotations
	w.Put(key, ns)
	synctest.Wait()
}

// Whatever the windows are, and whenever the daemon is started: no pod starts outside of its window, and none waits within it, since
// there is room for all.
func TestNoPodStartsOutsideItsWindow(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 1))
				w := controltest.New(t)
				defer w.End()
				windows := map[string]*core.Window{}
				for i := range 12 {
					from := random.IntN(24 * 60)
					to := (from + 1 + random.IntN(12*60)) % (24 * 60)
					text := fmt.Sprintf("%02d:%02d-%02d:%02d", from/60, from%60, to/60, to%60)
					if random.IntN(3) == 0 {
						text += " Sat-Mon"
					}
					end := []string{core.WindowFinish, core.WindowPause, core.WindowStop}[random.IntN(3)]
					j := windowed(fmt.Sprint("j", i), text, end, fmt.Sprint(1+random.IntN(300), "m"), int32(1+random.IntN(20)))
					j.Spec.Parallelism = ptr.To(int32(1 + random.IntN(3)))
					windows[j.Name] = core.WindowOf(j.Annotations)
					if windows[j.Name] == nil {
						t.Fatal(text)
					}
					w.Create(j)
				}
				seen, starts := map[string]bool{}, 0
				for range 4 * 24 * 6 {
					time.Sleep(10*time.Minute + time.Duration(random.IntN(3))*time.Second)
					if random.IntN(40) == 0 {
						w.Stop()
						time.Sleep(time.Duration(random.IntN(180)) * time.Minute)
						w.Start()
						time.Sleep(time.Second)
					}
					synctest.Wait()
					for _, p := range w.Pods() {
						of := windows[p.Labels[batchv1.JobNameLabel]]
						if podspec.Bound(p) && !seen[p.Name] {
							starts++
							if seen[p.Name] = true; !of.Open(p.Status.StartTime.Time) {
								t.Fatalf("%s started at %v, outside of %s", p.Name, p.Status.StartTime, of)
							}
						}
						if open, _ := of.At(time.Now().Add(-2 * time.Second)); open && of.Open(time.Now()) && !podspec.Bound(p) {
							t.Fatalf("%s waits at %v, within %s", p.Name, time.Now().UTC(), of)
						}
					}
					for name, of := range windows {
						j := w.Job(name)
						if batch.End(&j.Status) != nil {
							continue
						}
						if open, _ := of.At(time.Now().Add(-2 * time.Second)); open && of.Open(time.Now()) && j.Status.Active == 0 {
							t.Fatalf("%s has no pod at %v, within %s: %+v", name, time.Now().UTC(), of, j.Status)
						}
					}
				}
				for name := range windows {
					if j := w.Job(name); j.Status.Failed > 0 || starts == 0 {
						t.Errorf("%s: %d failures", name, j.Status.Failed)
					}
				}
			})
		})
	}
}
