package control

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// hang does what becomes of a daemon that hangs on an object: it ends, and another one starts.
func (w *world) hang(concern, key string) {
	w.t.Helper()
	synctest.Wait()
	if err := w.aside.Hang(aside.Hang{Concern: concern, Key: key, At: time.Now()}); err != nil {
		w.t.Fatal(err)
	}
	w.stop()
	w.start()
	synctest.Wait()
}

// annotate changes an object as a client would to have it worked on again.
func (w *world) annotate(key string, obj objects.Object) {
	w.t.Helper()
	w.edit(key, obj, func() { obj.SetAnnotations(map[string]string{"try-again": time.Now().String()}) })
}

// edit changes an object as it is stored.
func (w *world) edit(key string, obj objects.Object, change func()) {
	w.t.Helper()
	if err := w.store.View(func(s *store.Snapshot) error {
		ok, err := objects.Read(s, key, obj)
		if err == nil && !ok {
			err = errors.New("it is gone")
		}
		return err
	}); err != nil {
		w.t.Fatal(key, err)
	}
	change()
	w.put(key, obj)
	synctest.Wait()
}

// asideEvents counts the events that say that something was set aside.
func (w *world) asideEvents() (n int) {
	w.t.Helper()
	synctest.Wait()
	if err := w.store.View(func(s *store.Snapshot) error {
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
		w.t.Fatal(err)
	}
	return n
}

var jobKey = store.Key(objects.Jobs, "default", "j")

// The pods of a Job that was set aside go on and end, and are counted once, when it was changed. Other Jobs do not notice.
func TestAJobThatWasSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		j := simulate("j", "10s", "0")
		j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](4), ptr.To[int32](2)
		w.create(j)
		time.Sleep(time.Second)
		w.hang("jobs", jobKey)
		w.create(simulate("other", "1s", "0"))
		time.Sleep(time.Minute)
		if !objects.Finished(w.job("other")) {
			t.Error("another Job does not run to its end")
		}
		ended := 0
		for _, p := range w.pods() {
			if p.Labels[batchv1.JobNameLabel] == "j" && p.Status.Phase == corev1.PodSucceeded && len(p.Finalizers) == 1 {
				ended++
			}
		}
		if got := w.job("j").Status; ended != 2 || got.Succeeded != 0 || got.Active != 2 {
			t.Errorf("%d pods have ended, and its status is %+v", ended, got)
		}
		w.stop() // and again
		w.start()
		time.Sleep(time.Minute)
		if n := w.asideEvents(); n != 1 {
			t.Errorf("%d events say so", n)
		}
		w.annotate(jobKey, &batchv1.Job{})
		if got := w.job("j").Status; got.Succeeded != 2 || got.Active != 2 {
			t.Errorf("after a change its status is %+v", got)
		}
		time.Sleep(time.Minute)
		if got := w.job("j"); !objects.Finished(got) || got.Status.Succeeded != 4 {
			t.Errorf("at last its status is %+v", got.Status)
		}
		if n := len(w.pods()); n != 5 {
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
					defer w.end()
					j := simulate("j", "1h", "0")
					j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](2), ptr.To[int32](2)
					w.create(j)
					w.hang("jobs", jobKey)
					got := w.job("j")
					if storage.SetPropagation(got, policy); policy == metav1.DeletePropagationBackground {
						w.write(func(tx *store.Tx) error { tx.Delete(jobKey); return nil })
					} else {
						storage.MarkDeleted(got, time.Now(), 0)
						w.put(jobKey, got)
					}
					if when == "before jobd starts" {
						w.stop()
						w.start()
					}
					time.Sleep(time.Minute)
					if got := w.job("j"); got != nil {
						t.Errorf("it is still there: %+v", got.ObjectMeta)
					}
					if left := w.pods(); len(left) != want {
						t.Errorf("%d pods are left, want %d", len(left), want)
					}
					if e := w.aside.Entries(); len(e) > 0 {
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
		defer w.end()
		key := store.Key(objects.CronJobs, "default", "c")
		w.cron("c", "* * * * *", "1s", nil)
		w.hang("cronJobs", key)
		time.Sleep(10 * time.Minute)
		if names := w.jobNames(); len(names) > 0 {
			t.Errorf("it has started %v", names)
		}
		w.annotate(key, &batchv1.CronJob{})
		time.Sleep(2 * time.Minute)
		if names := w.jobNames(); len(names) == 0 {
			t.Error("after a change it starts nothing")
		}
	})
}

// A CronJob that forbids a second Job knows of one that was set aside.
func TestForbidWithAJobThatWasSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		w.cron("c", "* * * * *", "1h", func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = batchv1.ForbidConcurrent })
		time.Sleep(90 * time.Second)
		names := w.jobNames()
		if len(names) != 1 {
			t.Fatal(names)
		}
		w.hang("jobs", store.Key(objects.Jobs, "default", names[0]))
		time.Sleep(10 * time.Minute)
		if names := w.jobNames(); len(names) != 1 {
			t.Errorf("it has started %v", names)
		}
		if active := w.cronJob("c").Status.Active; len(active) != 1 {
			t.Errorf("active are %v", active)
		}
	})
}

// The container of a pod that was set aside goes on and ends. This is found out when the pod is worked on again,
// however often jobd was started meanwhile.
func TestAPodThatWasSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		w.create(simulate("j", "10s", "3"))
		w.create(simulate("other", "30s", "0"))
		var key string
		for _, p := range w.pods() {
			if p.Labels[batchv1.JobNameLabel] == "j" {
				key = objects.Key(objects.Pods, p)
			}
		}
		w.hang("pods", key)
		time.Sleep(time.Minute)
		w.stop()
		w.start()
		if !objects.Finished(w.job("other")) {
			t.Error("another Job does not run to its end")
		}
		w.annotate(key, &corev1.Pod{})
		time.Sleep(time.Second)
		p := &corev1.Pod{}
		w.edit(key, p, func() {})
		if end := p.Status.ContainerStatuses[0].State.Terminated; p.Status.Phase != corev1.PodFailed || end == nil || end.ExitCode != 3 {
			t.Errorf("it has become %+v", p.Status)
		}
		if got := w.job("j").Status; got.Failed != 1 {
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
				defer w.end()
				w.create(simulate("j", "1h", "0"))
				pods := w.pods()
				key := objects.Key(objects.Pods, pods[0])
				w.hang("pods", key)
				p := &corev1.Pod{}
				w.edit(key, p, func() { storage.MarkDeleted(p, time.Now(), 30) })
				if when == "before jobd starts" {
					w.stop()
					w.start()
				}
				time.Sleep(5 * time.Minute)
				left := w.pods()
				if len(left) != 1 || left[0].Name == pods[0].Name || left[0].Status.Phase != corev1.PodRunning {
					t.Fatalf("%d pods are left", len(left))
				}
				if got := w.job("j").Status; got.Failed != 1 || got.Active != 1 {
					t.Errorf("its Job: %+v", got)
				}
				containers, err := w.runtime.Containers(t.Context())
				if err != nil || len(containers) != 1 {
					t.Errorf("containers are left: %v, %v", containers, err)
				}
			})
		})
	}
}

// What was never stored when the loop hung on it is set aside when it comes.
func TestAnObjectThatWasNeverStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		if err := w.aside.Hang(aside.Hang{Concern: "jobs", Key: jobKey, Unstored: true, At: time.Now()}); err != nil {
			t.Fatal(err)
		}
		w.stop()
		w.start()
		w.create(simulate("j", "1s", "0"))
		time.Sleep(time.Minute)
		if n := len(w.pods()); n > 0 || w.asideEvents() != 1 {
			t.Errorf("%d pods, and %d events say why", n, w.asideEvents())
		}
		w.annotate(jobKey, &batchv1.Job{})
		time.Sleep(time.Minute)
		if !objects.Finished(w.job("j")) {
			t.Error("it does not run after a change")
		}
	})
}
