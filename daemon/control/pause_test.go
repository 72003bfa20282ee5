package control_test

import (
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// pause pauses or continues a Job as jobctl does.
func pause(w *world, name string, pause bool) {
	j := w.Job(name)
	delete(j.Annotations, batch.PausedAnnotation)
	if pause {
		if j.Annotations == nil {
			j.Annotations = map[string]string{}
		}
		j.Annotations[batch.PausedAnnotation] = time.Now().Format(time.RFC3339Nano)
	}
	w.Put(objects.Key(objects.Jobs, j), j)
	synctest.Wait()
}

func podOfJob(w *world, name string) *corev1.Pod {
	for _, p := range w.Pods() {
		if p.Labels["job-name"] == name {
			return p
		}
	}
	return nil
}

// A Job that is paused stands still, gives its CPU to others and goes on where it was, over restarts of the daemon.
func TestAPausedJobStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := small(t)
		defer w.End()
		for _, name := range []string{"paused", "other"} { // each takes the whole machine
			j := controltest.Simulate(name, "1m", "0")
			j.Spec.ActiveDeadlineSeconds = ptr.To[int64](100)
			j.Spec.Template.Spec.ActiveDeadlineSeconds = ptr.To[int64](90)
			j.Spec.Template.Spec.Containers = controltest.Asking("2")
			if name == "other" {
				j.Spec.ActiveDeadlineSeconds = nil
			}
			w.Create(j)
			time.Sleep(10 * time.Second)
		}
		if p := podOfJob(w, "other"); p.Spec.NodeName != "" {
			t.Fatal("there is room for both")
		}
		begin := w.Job("paused").Status.StartTime
		pause(w, "paused", true)
		if _, frozen := core.PausedSince(podOfJob(w, "paused")); !frozen || batch.State(w.Job("paused")) != batch.StatePaused {
			t.Fatalf("it is not frozen: %+v", podOfJob(w, "paused").Status)
		}
		time.Sleep(30 * time.Second)
		if p := podOfJob(w, "other"); p.Status.Phase != corev1.PodRunning {
			t.Errorf("its CPU is not given to others: %+v", p.Status)
		}
		w.Stop()
		w.Start()
		time.Sleep(time.Hour)
		if j := w.Job("paused"); batch.End(&j.Status) != nil || podOfJob(w, "paused").Status.Phase != corev1.PodRunning {
			t.Fatalf("it has ended: %+v", j.Status)
		}
		if j := w.Job("other"); batch.End(&j.Status) == nil {
			t.Error("the other one has not ended")
		}
		pause(w, "paused", false)
		j, p := w.Job("paused"), podOfJob(w, "paused")
		if _, frozen := core.PausedSince(p); frozen || batch.State(j) != batch.StateRunning || !j.Status.StartTime.Equal(begin) {
			t.Errorf("it does not go on: %+v %+v", j.Status, p.Status)
		}
		if d := batch.PausedFor(j.Annotations); d != core.PausedFor(p) || d < time.Hour || d > time.Hour+time.Minute {
			t.Errorf("it was paused for %s, and its pod for %s", d, core.PausedFor(p))
		}
		ends, ok := batch.Deadline(j)
		if left := time.Until(ends); !ok || left < 75*time.Second || left > 85*time.Second {
			t.Errorf("of its deadline %s are left", left)
		}
		time.Sleep(35 * time.Second)
		if batch.End(&w.Job("paused").Status) != nil {
			t.Error("the time of the pause counts as time in which it ran")
		}
		time.Sleep(15 * time.Second)
		if end := batch.End(&w.Job("paused").Status); end == nil || end.Type != batchv1.JobComplete {
			t.Errorf("it ends with %+v", end)
		}
	})
}

func TestAPausedJobGetsNoPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := small(t)
		defer w.End()
		j := controltest.Simulate("new", "1m", "0")
		j.Annotations = map[string]string{batch.PausedAnnotation: time.Now().Format(time.RFC3339Nano)}
		w.Create(j)
		waits := controltest.Simulate("waits", "1m", "0")
		waits.Spec.Template.Spec.Containers = controltest.Asking("2")
		first := controltest.Simulate("first", "1m", "0")
		first.Spec.Template.Spec.Containers = controltest.Asking("2")
		w.Create(first)
		time.Sleep(time.Second)
		w.Create(waits)
		time.Sleep(time.Second)
		pause(w, "waits", true)
		time.Sleep(time.Hour)
		if p := podOfJob(w, "new"); p != nil {
			t.Errorf("it has a pod: %s", p.Name)
		}
		if p := podOfJob(w, "waits"); p.Spec.NodeName != "" {
			t.Error("a pod that waited was started")
		}
		pause(w, "new", false)
		pause(w, "waits", false)
		time.Sleep(5 * time.Minute)
		for _, name := range []string{"new", "waits"} {
			if j := w.Job(name); batch.End(&j.Status) == nil {
				t.Errorf("%s does not go on: %+v", name, j.Status)
			}
		}
	})
}

// Whatever ends a Job that is paused ends it, and nothing of it is left.
func TestAPausedJobIsEnded(t *testing.T) {
	for name, end := range map[string]func(w *world){
		"suspended": func(w *world) {
			j := w.Job("j")
			j.Spec.Suspend = ptr.To(true)
			w.Put(objects.Key(objects.Jobs, j), j)
		},
		"its pod is deleted, and it is continued": func(w *world) {
			p := podOfJob(w, "j")
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = ptr.To(metav1.Now()), ptr.To[int64](1)
			w.Put(objects.Key(objects.Pods, p), p)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := small(t)
				defer w.End()
				w.Create(controltest.Simulate("j", "1m", "0"))
				time.Sleep(10 * time.Second)
				before := podOfJob(w, "j").Name
				pause(w, "j", true)
				time.Sleep(time.Minute)
				end(w)
				time.Sleep(time.Minute)
				for _, p := range w.Pods() {
					if p.Name == before && p.Status.Phase == corev1.PodRunning {
						t.Errorf("it still runs: %+v", p.Status)
					}
				}
				pause(w, "j", false)
				j := w.Job("j")
				if ptr.Deref(j.Spec.Suspend, false) {
					if batch.State(j) != batch.StateSuspended {
						t.Errorf("it is %s", batch.State(j))
					}
					j.Spec.Suspend = ptr.To(false)
					w.Put(objects.Key(objects.Jobs, j), j)
				}
				time.Sleep(5 * time.Minute)
				if j := w.Job("j"); batch.End(&j.Status) == nil || batch.PausedFor(j.Annotations) > 0 && name == "suspended" {
					t.Errorf("it does not go on: %+v %v", j.Status, j.Annotations)
				}
			})
		})
	}
}

// What a daemon has frozen, and could not note before it was killed, goes on when the next one starts: by then its Job was continued.
func TestWhatWasFrozenBeforeACrashGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := small(t)
		defer w.End()
		w.Create(controltest.Simulate("j", "1m", "0"))
		time.Sleep(10 * time.Second)
		p := podOfJob(w, "j")
		w.Stop()
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: core.PodPaused, Status: corev1.ConditionFalse, Reason: "Pausing"})
		var err error
		if w.Store, err = store.Open(w.Path, store.Options{NoSync: true}); err != nil {
			t.Fatal(err)
		}
		w.Put(objects.Key(objects.Pods, p), p)
		if err := w.Store.Close(); err != nil {
			t.Fatal(err)
		}
		held, err := w.Runtime.Containers(t.Context())
		if err != nil || len(held) != 1 {
			t.Fatal(held, err)
		}
		if err := w.Runtime.Freeze(string(p.UID), held[0].ID, true); err != nil {
			t.Fatal(err)
		}
		w.Start()
		time.Sleep(2 * time.Minute)
		if j := w.Job("j"); batch.End(&j.Status) == nil {
			t.Errorf("it does not go on: %+v", podOfJob(w, "j").Status)
		}
	})
}

// A Job that was set aside while it is paused stays so, and its CPU is free. It goes on when somebody continues it, and whatever removes
// it frees what its pods have kept.
func TestAPausedJobThatWasSetAside(t *testing.T) {
	remove := func(policy metav1.DeletionPropagation) func(w *world) {
		return func(w *world) {
			j := w.Job("j")
			if policy == metav1.DeletePropagationBackground {
				w.Write(func(tx *store.Tx) error { tx.Delete(jobKey); return nil })
				return
			}
			storage.SetPropagation(j, policy)
			storage.MarkDeleted(j, time.Now(), 0)
			w.Put(jobKey, j)
		}
	}
	for name, c := range map[string]struct {
		frees func(w *world)
		runs  bool // its pod goes on to its end
	}{
		"continued":                        {func(w *world) { pause(w, "j", false) }, true},
		"deleted":                          {remove(metav1.DeletePropagationBackground), false},
		"deleted after its pods":           {remove(metav1.DeletePropagationForeground), false},
		"deleted, and its pods are let go": {remove(metav1.DeletePropagationOrphan), true},
		"suspended":                        {func(w *world) { suspendJob(w, "j") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := small(t)
				defer w.End()
				j := controltest.Simulate("j", "10m", "0")
				j.Spec.Template.Spec.Containers = controltest.Asking("2")
				j.Spec.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
				w.Create(j)
				time.Sleep(time.Second)
				pause(w, "j", true)
				w.hang("jobs", jobKey)
				if _, frozen := core.PausedSince(podOfJob(w, "j")); !frozen {
					t.Fatalf("it is not frozen: %+v", podOfJob(w, "j").Status.Conditions)
				}
				cpu := controltest.Simulate("cpu", "1m", "0")
				cpu.Spec.Template.Spec.Containers = controltest.Asking("2")
				w.Create(cpu)
				port := controltest.Simulate("port", "1m", "0")
				port.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox", Ports: j.Spec.Template.Spec.Containers[0].Ports}}
				w.Create(port)
				time.Sleep(time.Hour)
				if p := podOfJob(w, "port"); !objects.Finished(w.Job("cpu")) || p.Spec.NodeName != "" || podOfJob(w, "j").Status.Phase != corev1.PodRunning {
					t.Fatalf("its CPU is not free, or its port is: %+v", p.Status)
				}
				before := podOfJob(w, "j").Name
				c.frees(w)
				time.Sleep(2 * time.Minute)
				for _, p := range w.Pods() {
					if _, frozen := core.PausedSince(p); p.Name == before && (frozen || c.runs != (p.Status.Phase == corev1.PodRunning)) {
						t.Errorf("frozen %v, %+v", frozen, p.Status)
					}
				}
				time.Sleep(time.Hour)
				if !objects.Finished(w.Job("port")) {
					t.Errorf("its port is not free: %+v", podOfJob(w, "port").Status)
				}
			})
		})
	}
}

func suspendJob(w *world, name string) {
	j := w.Job(name)
	j.Spec.Suspend = ptr.To(true)
	w.Put(objects.Key(objects.Jobs, j), j)
	synctest.Wait()
}
