package control_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/inspection"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// hang does what becomes of a daemon that hangs on an object: it ends, and another one starts.
func (w *world) hang(concern, key string) {
	w.T.Helper()
	synctest.Wait()
	if err := w.Aside.Hang(aside.Hang{Concern: concern, Key: key, At: time.Now()}); err != nil {
		w.T.Fatal(err)
	}
	w.Stop()
	w.Start()
	synctest.Wait()
}

// annotate changes an object as a client would to have it worked on again.
func (w *world) annotate(key string, obj objects.Object) {
	w.T.Helper()
	w.edit(key, obj, func() { obj.SetAnnotations(map[string]string{"try-again": time.Now().String()}) })
}

// edit changes an object as it is stored.
func (w *world) edit(key string, obj objects.Object, change func()) {
	w.T.Helper()
	if err := w.Store.View(func(s *store.Snapshot) error {
		ok, err := objects.Read(s, key, obj)
		if err == nil && !ok {
			err = errors.New("it is gone")
		}
		return err
	}); err != nil {
		w.T.Fatal(key, err)
	}
	change()
	w.Put(key, obj)
	synctest.Wait()
}

// asideEvents counts the events that say that something was set aside.
func (w *world) asideEvents() (n int) {
	w.T.Helper()
	synctest.Wait()
	if err := w.Store.View(func(s *store.Snapshot) error {
		return objects.Each(s, objects.Events, func(_ string, e *corev1.Event) error {
			if e.Reason == "SetAside" {
				if e.InvolvedObject.UID == "" || e.InvolvedObject.Kind == "" || e.Type != corev1.EventTypeWarning {
					return fmt.Errorf("%+v", e)
				}
				n += int(e.Count)
			}
			return nil
		})
	}); err != nil {
		w.T.Fatal(err)
	}
	return n
}

var jobKey = store.Key(objects.Jobs, "default", "j")

// The pods of a Job that was set aside go on and end, and are counted once, when it was changed. Other Jobs do not notice.
func TestAJobThatWasSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		j := controltest.Simulate("j", "10s", "0")
		j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](4), ptr.To[int32](2)
		w.Create(j)
		time.Sleep(time.Second)
		w.hang("jobs", jobKey)
		w.Create(controltest.Simulate("other", "1s", "0"))
		time.Sleep(time.Minute)
		if !objects.Finished(w.Job("other")) {
			t.Error("another Job does not run to its end")
		}
		ended := 0
		for _, p := range w.Pods() {
			if p.Labels[batchv1.JobNameLabel] == "j" && p.Status.Phase == corev1.PodSucceeded && len(p.Finalizers) == 1 {
				ended++
			}
		}
		if got := w.Job("j").Status; ended != 2 || got.Succeeded != 0 || got.Active != 2 {
			t.Errorf("%d pods have ended, and its status is %+v", ended, got)
		}
		w.Stop() // and again
		w.Start()
		time.Sleep(time.Minute)
		if n := w.asideEvents(); n != 1 {
			t.Errorf("%d events say so", n)
		}
		w.annotate(jobKey, &batchv1.Job{})
		if got := w.Job("j").Status; got.Succeeded != 2 || got.Active != 2 {
			t.Errorf("after a change its status is %+v", got)
		}
		time.Sleep(time.Minute)
		if got := w.Job("j"); !objects.Finished(got) || got.Status.Succeeded != 4 {
			t.Errorf("at last its status is %+v", got.Status)
		}
		if n := len(w.Pods()); n != 5 {
			t.Errorf("there were %d pods", n)
		}
	})
}

// A Job that was set aside can be deleted, with its pods or without them.
func TestAJobThatWasSetAsideIsDeleted(t *testing.T) {
	for policy, want := range map[metav1.DeletionPropagation]int{
		metav1.DeletePropagationBackground: 0,
		metav1.DeletePropagationForeground: 0,
		metav1.DeletePropagationOrphan:     2,
	} {
		for _, when := range []string{"while jobd runs", "before jobd starts"} {
			t.Run(fmt.Sprint(policy, " ", when), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					defer w.End()
					j := controltest.Simulate("j", "1h", "0")
					j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](2), ptr.To[int32](2)
					w.Create(j)
					w.hang("jobs", jobKey)
					got := w.Job("j")
					if storage.SetPropagation(got, policy); policy == metav1.DeletePropagationBackground {
						w.Write(func(tx *store.Tx) error { tx.Delete(jobKey); return nil })
					} else {
						storage.MarkDeleted(got, time.Now(), 0)
						w.Put(jobKey, got)
					}
					if when == "before jobd starts" {
						w.Stop()
						w.Start()
					}
					time.Sleep(time.Minute)
					if got := w.Job("j"); got != nil {
						t.Errorf("it is still there: %+v", got.ObjectMeta)
					}
					if left := w.Pods(); len(left) != want {
						t.Errorf("%d pods are left, want %d", len(left), want)
					}
					if e := w.Aside.Entries(); len(e) > 0 {
						t.Errorf("it is remembered: %+v", e)
					}
				})
			})
		}
	}
}

// A CronJob that was set aside starts nothing, until it is changed.
func TestACronJobThatWasSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		key := store.Key(objects.CronJobs, "default", "c")
		w.CreateCronJob("c", "* * * * *", "1s", nil)
		w.hang("cronJobs", key)
		time.Sleep(10 * time.Minute)
		if names := w.JobNames(); len(names) > 0 {
			t.Errorf("it has started %v", names)
		}
		w.annotate(key, &batchv1.CronJob{})
		time.Sleep(2 * time.Minute)
		if names := w.JobNames(); len(names) == 0 {
			t.Error("after a change it starts nothing")
		}
	})
}

// A CronJob that forbids a second Job knows of one that was set aside.
func TestForbidWithAJobThatWasSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		w.CreateCronJob("c", "* * * * *", "1h", func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = batchv1.ForbidConcurrent })
		time.Sleep(90 * time.Second)
		names := w.JobNames()
		if len(names) != 1 {
			t.Fatal(names)
		}
		w.hang("jobs", store.Key(objects.Jobs, "default", names[0]))
		time.Sleep(10 * time.Minute)
		if names := w.JobNames(); len(names) != 1 {
			t.Errorf("it has started %v", names)
		}
		if active := w.CronJob("c").Status.Active; len(active) != 1 {
			t.Errorf("active are %v", active)
		}
	})
}

// The container of a pod that was set aside goes on and ends. This is found out when the pod is worked on again,
// however often jobd was started meanwhile.
func TestAPodThatWasSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		w.Create(controltest.Simulate("j", "10s", "3"))
		w.Create(controltest.Simulate("other", "30s", "0"))
		var key string
		for _, p := range w.Pods() {
			if p.Labels[batchv1.JobNameLabel] == "j" {
				key = objects.Key(objects.Pods, p)
			}
		}
		w.hang("pods", key)
		time.Sleep(time.Minute)
		w.Stop()
		w.Start()
		if !objects.Finished(w.Job("other")) {
			t.Error("another Job does not run to its end")
		}
		w.annotate(key, &corev1.Pod{})
		time.Sleep(time.Second)
		p := &corev1.Pod{}
		w.edit(key, p, func() {})
		if end := p.Status.ContainerStatuses[0].State.Terminated; p.Status.Phase != corev1.PodFailed || end == nil || end.ExitCode != 3 {
			t.Errorf("it has become %+v", p.Status)
		}
		if got := w.Job("j").Status; got.Failed != 1 {
			t.Errorf("its Job: %+v", got)
		}
	})
}

// A pod that was set aside can be deleted: its container is ended, and it has failed for its Job.
func TestAPodThatWasSetAsideIsDeleted(t *testing.T) {
	for _, when := range []string{"while jobd runs", "before jobd starts"} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.End()
				w.Create(controltest.Simulate("j", "1h", "0"))
				pods := w.Pods()
				key := objects.Key(objects.Pods, pods[0])
				w.hang("pods", key)
				p := &corev1.Pod{}
				w.edit(key, p, func() { storage.MarkDeleted(p, time.Now(), 30) })
				if when == "before jobd starts" {
					w.Stop()
					w.Start()
				}
				time.Sleep(5 * time.Minute)
				left := w.Pods()
				if len(left) != 1 || left[0].Name == pods[0].Name || left[0].Status.Phase != corev1.PodRunning {
					t.Fatalf("%d pods are left", len(left))
				}
				if got := w.Job("j").Status; got.Failed != 1 || got.Active != 1 {
					t.Errorf("its Job: %+v", got)
				}
				containers, err := w.Runtime.Containers(t.Context())
				if err != nil || len(containers) != 1 {
					t.Errorf("containers are left: %v, %v", containers, err)
				}
			})
		})
	}
}

// Of a Job on whose pods the loop hangs one after the other two have hung when it is set aside with all its pods: their containers
// go on and end. This is found out when the Job is changed, also after further starts. Deleted with it all of them are gone.
func TestAJobWhosePodsHang(t *testing.T) {
	for _, end := range []string{"is changed", "is deleted"} {
		t.Run("it "+end, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.End()
				j := controltest.Simulate("j", "30s", "0")
				j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](6), ptr.To[int32](4)
				w.Create(j)
				w.Create(controltest.Simulate("other", "40s", "0"))
				time.Sleep(time.Second)
				var keys []string
				for _, p := range w.Pods() {
					if p.Labels[batchv1.JobNameLabel] == "j" {
						keys = append(keys, objects.Key(objects.Pods, p))
					}
				}
				w.hang("pods", keys[0])
				if w.Aside.Has("jobs", jobKey) || w.Aside.Has("pods", keys[1]) {
					t.Fatal("one pod that hangs sets others aside")
				}
				w.hang("pods", keys[1])
				for range 2 {
					time.Sleep(time.Minute)
					w.Stop()
					w.Start()
				}
				if n := w.asideEvents(); n != 3 {
					t.Errorf("%d events say so, want one of each pod and one of the Job", n)
				}
				if got := w.Job("j").Status; got.Succeeded != 0 || len(w.Pods()) != 5 {
					t.Errorf("its status is %+v, and there are %d pods", got, len(w.Pods()))
				}
				if !objects.Finished(w.Job("other")) {
					t.Error("another Job does not run to its end")
				}
				if end == "is deleted" {
					got := w.Job("j")
					storage.SetPropagation(got, metav1.DeletePropagationBackground)
					w.Write(func(tx *store.Tx) error { tx.Delete(jobKey); return nil })
					time.Sleep(time.Second)
					w.Stop()
					w.Start()
					time.Sleep(time.Minute)
					if left := w.Pods(); len(left) != 1 || len(w.Aside.Entries()) > 0 {
						t.Errorf("%d pods are left, and set aside are %+v", len(left), w.Aside.Entries())
					}
					return
				}
				w.annotate(jobKey, &batchv1.Job{})
				time.Sleep(time.Second)
				if got := w.Job("j").Status; got.Succeeded != 4 || got.Active != 2 {
					t.Errorf("after a change its status is %+v", got)
				}
				time.Sleep(time.Minute)
				if got := w.Job("j"); !objects.Finished(got) || len(w.Aside.Entries()) > 0 {
					t.Errorf("at last its status is %+v, and set aside are %+v", got.Status, w.Aside.Entries())
				}
			})
		})
	}
}

// What was never stored when the loop hung on it is set aside when it comes.
func TestAnObjectThatWasNeverStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		if err := w.Aside.Hang(aside.Hang{Concern: "jobs", Key: jobKey, Unstored: true, At: time.Now()}); err != nil {
			t.Fatal(err)
		}
		w.Stop()
		w.Start()
		w.Create(controltest.Simulate("j", "1s", "0"))
		time.Sleep(time.Minute)
		if n := len(w.Pods()); n > 0 || w.asideEvents() != 1 {
			t.Errorf("%d pods, and %d events say why", n, w.asideEvents())
		}
		w.annotate(jobKey, &batchv1.Job{})
		time.Sleep(time.Minute)
		if !objects.Finished(w.Job("j")) {
			t.Error("it does not run after a change")
		}
	})
}

// What an older version has set aside from a concern that has another name now, or is gone, is worked on: that version may
// have been mended. When jobd hangs on it again, it is set aside from the concern of today.
func TestWhatWasSetAsideFromAConcernThatIsGone(t *testing.T) {
	for _, version := range []string{"v0", "v1"} { // the world's is v1
		t.Run(version, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.End()
				w.MaxPods = 0
				w.Stop()
				w.Start()
				w.Create(controltest.Simulate("j", "1s", "0"))
				w.Create(controltest.Simulate("other", "1s", "0"))
				of := w.Job("j")
				w.MaxPods = 10
				w.Stop()
				entry := fmt.Sprintf(`[{"concern": "accounts", "key": %q, "uid": %q, "hangs": 1, "version": %q, "at": %q}]`,
					jobKey, of.UID, version, time.Now().Format(time.RFC3339))
				if err := os.WriteFile(w.Path+".aside", []byte(entry), 0o600); err != nil {
					t.Fatal(err)
				}
				w.Start()
				time.Sleep(time.Minute)
				if !objects.Finished(w.Job("j")) || !objects.Finished(w.Job("other")) {
					t.Errorf("%+v, and another Job %+v", w.Job("j").Status, w.Job("other").Status)
				}
				w.hang("ledger", jobKey)
				if !w.Aside.Has("ledger", jobKey) || w.Aside.Has("jobs", jobKey) {
					t.Errorf("set aside are %+v", w.Aside.Entries())
				}
				w.Delete(jobKey, of)
				time.Sleep(time.Minute)
				if w.Job("j") != nil || w.Aside.Knows(jobKey) {
					t.Errorf("it is not gone, or is remembered: %+v", w.Aside.Entries())
				}
			})
		})
	}
}

// Some concerns are known by name elsewhere: package aside makes entries for Jobs and CronJobs whose pods and Jobs were never
// stored, the daemon for pods on which the network hangs, and the queue asks for pods that admission leaves alone.
func TestNamesOfConcerns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		is, err := w.Control.Inspect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"pods", "jobs", "cronJobs", "admission"} {
			if !slices.ContainsFunc(is.Concerns, func(c inspection.Concern) bool { return c.Name == name }) {
				t.Errorf("there is no concern %s among %+v", name, is.Concerns)
			}
		}
	})
}
