package history_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	wire "github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/history"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// world is a world with its history.
type world struct{ *controltest.World }

// history returns what is kept of Jobs that have ended, with their pods.
func (w *world) history() (jobs []wire.Job) {
	w.T.Helper()
	synctest.Wait()
	if err := w.Store.View(func(s *store.Snapshot) (err error) {
		jobs, _, err = history.Read(s, wire.Query{Pods: true})
		return err
	}); err != nil {
		w.T.Fatal(err)
	}
	return jobs
}

// open returns how much is stored of what is not history yet.
func (w *world) open() (usages, accounts, creators int) {
	w.T.Helper()
	_ = w.Store.View(func(s *store.Snapshot) error {
		usages, accounts, creators = s.Count(objects.Usages+"/"), s.Count(objects.Accounts+"/"), s.Count(storage.CreatorPrefix)
		return nil
	})
	return
}

func (w *world) createdBy(j *batchv1.Job, user string) {
	w.Write(func(tx *store.Tx) error {
		tx.Put(store.Object{Key: storage.CreatorKey(objects.Key(objects.Jobs, j)), UID: string(j.UID), Value: []byte(user)})
		return nil
	})
}

// What a Job has run is history once it has ended, and stays there after the Job is gone.
func TestHistoryOutlivesJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{controltest.New(t)}
		defer w.End()
		j := controltest.Simulate("j", "3s", "1,1,0")
		j.Spec.BackoffLimit, j.Spec.TTLSecondsAfterFinished = ptr.To[int32](5), ptr.To[int32](10)
		j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		j.Labels = map[string]string{"app": "report"}
		w.Create(j)
		w.createdBy(j, "alice")
		time.Sleep(2 * time.Second)
		w.Stop() // nothing is lost with a daemon
		w.Start()
		time.Sleep(5 * time.Minute)
		if w.Job("j") != nil {
			t.Fatal("the Job is still there")
		}
		all := w.history()
		if len(all) != 1 {
			t.Fatalf("%d Jobs in the history: %+v", len(all), all)
		}
		got := all[0]
		if got.Name != "j" || got.Namespace != "default" || got.User != "alice" || got.Result != wire.Complete ||
			got.Reason != batchv1.JobReasonCompletionsReached ||
			got.Labels["app"] != "report" || got.Succeeded != 1 || got.Retries < 2 || got.Started == nil || got.Ended.Before(got.Started) {
			t.Errorf("the history says %+v", got)
		}
		if len(got.Pods) != 1 || got.Pods[0].Result != wire.PodSucceeded || len(got.Pods[0].Containers) != 1 ||
			got.Pods[0].Containers[0].Restarts != got.Retries {
			t.Errorf("pods %+v", got.Pods)
		}
		if a, b, c := w.open(); a+b+c != 0 {
			t.Errorf("%d usages, %d accounts and %d creators are left", a, b, c)
		}
	})
}

// Failed pods that were replaced are retries, the last one of a Job that fails is none.
func TestHistoryOfAFailedJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{controltest.New(t)}
		defer w.End()
		j := controltest.Simulate("j", "1s", "7")
		j.Spec.BackoffLimit = ptr.To[int32](2)
		w.Create(j)
		time.Sleep(10 * time.Minute)
		all := w.history()
		if len(all) != 1 || all[0].Result != wire.Failed || all[0].Reason != batchv1.JobReasonBackoffLimitExceeded || all[0].Failed != 3 ||
			all[0].Retries != 2 || len(all[0].Pods) != 3 || len(all[0].ExitCodes) != 1 || all[0].ExitCodes[0] != (wire.ExitCode{Code: 7, Count: 3}) {
			t.Errorf("the history says %+v", all)
		}
	})
}

// A pod that its Job gives up, since it was restarted in place too often, has failed, and with which exit code is known: also if it
// fails again before it is stopped.
func TestHistoryOfRestartsInPlace(t *testing.T) {
	for _, takes := range []string{"1m", "0s"} {
		t.Run(takes, func(t *testing.T) { historyOfRestartsInPlace(t, takes) })
	}
}

func historyOfRestartsInPlace(t *testing.T, takes string) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{controltest.New(t)}
		defer w.End()
		j := controltest.Simulate("j", takes, "7")
		j.Spec.BackoffLimit = ptr.To[int32](0)
		j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		w.Create(j)
		time.Sleep(10 * time.Minute)
		all := w.history()
		if len(all) != 1 || all[0].Result != wire.Failed || all[0].Failed != 1 || all[0].Stopped != 0 || all[0].Retries != 1 ||
			len(all[0].ExitCodes) != 1 || all[0].ExitCodes[0] != (wire.ExitCode{Code: 7, Count: 1}) || all[0].Pods[0].Result != wire.PodFailed {
			t.Errorf("the history says %+v", all)
		}
	})
}

// Of a pod that the end of its Job's time has stopped, that is what became of it.
func TestHistoryOfADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{controltest.New(t)}
		defer w.End()
		j := controltest.Simulate("j", "1h", "0")
		j.Spec.ActiveDeadlineSeconds = ptr.To[int64](5)
		w.Create(j)
		time.Sleep(10 * time.Minute)
		all := w.history()
		if len(all) != 1 || len(all[0].Pods) != 1 || all[0].Pods[0].Result != wire.PodStopped || all[0].Pods[0].Reason != "DeadlineExceeded" {
			t.Errorf("the history says %+v", all)
		}
	})
}

// What a Job was paused for is told apart from what it ran, of the Job and of its pods.
func TestHistoryOfAPausedJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{controltest.New(t)}
		defer w.End()
		w.Create(controltest.Simulate("j", "1m", "0"))
		time.Sleep(20 * time.Second)
		for _, value := range []string{time.Now().Format(time.RFC3339), ""} {
			j := w.Job("j")
			if delete(j.Annotations, batch.PausedAnnotation); value != "" {
				metav1.SetMetaDataAnnotation(&j.ObjectMeta, batch.PausedAnnotation, value)
			}
			w.Put(objects.Key(objects.Jobs, j), j)
			time.Sleep(time.Hour)
		}
		all := w.history()
		if len(all) != 1 || all[0].Result != wire.Complete || all[0].Paused() != time.Hour || all[0].Pods[0].Paused() != time.Hour ||
			all[0].Pods[0].Ran() > 2*time.Minute || all[0].PodSeconds > 120 {
			t.Errorf("the history says %+v", all)
		}
	})
}

// A Job that is deleted before its end is closed when its pods have ended.
func TestHistoryOfADeletedJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{controltest.New(t)}
		defer w.End()
		j := controltest.Simulate("j", "1h", "0")
		w.Create(j)
		w.createdBy(j, "bob")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		w.Write(func(tx *store.Tx) error { tx.Delete(objects.Key(objects.Jobs, j)); return nil })
		time.Sleep(time.Minute)
		all := w.history()
		if len(all) != 1 || all[0].Result != wire.Deleted || all[0].User != "bob" || all[0].Stopped != 1 || len(all[0].Pods) != 1 ||
			all[0].Pods[0].Result != wire.PodStopped {
			t.Errorf("the history says %+v", all)
		}
		if a, b, c := w.open(); a+b+c != 0 {
			t.Errorf("%d usages, %d accounts and %d creators are left", a, b, c)
		}
	})
}

// A Job that is gone since it was moved says where to.
func TestHistoryOfAMovedJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{controltest.New(t)}
		defer w.End()
		j := controltest.Simulate("j", "1h", "0")
		j.Spec.Suspend = ptr.To(true)
		w.Create(j)
		time.Sleep(time.Second)
		moving := w.Job("j")
		moving.Annotations = map[string]string{batch.MovingAnnotation: `{"to": "big"}`} // which no client may write
		w.Put(objects.Key(objects.Jobs, j), moving)
		time.Sleep(time.Second)
		w.Write(func(tx *store.Tx) error { tx.Delete(objects.Key(objects.Jobs, j)); return nil })
		time.Sleep(time.Minute)
		if all := w.history(); len(all) != 1 || all[0].Result != wire.Deleted || all[0].Reason != "on its move to big" {
			t.Errorf("the history says %+v", all)
		}
	})
}

// The pods of a large Job are kept in parts.
func TestHistoryOfManyPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{controltest.New(t)}
		defer w.End()
		j := controltest.Simulate("j", "1s", "0")
		j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](250), ptr.To[int32](50)
		w.Create(j)
		time.Sleep(time.Minute)
		all, pods, parts := w.history(), 0, 0
		for _, one := range all {
			pods += len(one.Pods)
			if one.Part {
				parts++
			}
		}
		if len(all) != 13 || all[0].Part || parts != 12 || all[0].Succeeded != 250 || pods != 250 {
			t.Errorf("%d entries with %d pods: %+v", len(all), pods, all[0])
		}
	})
}

// A pod that names a Job that is over is none of its history.
func TestHistoryOfAPodThatCameLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{controltest.New(t)}
		defer w.End()
		j := controltest.Simulate("j", "1s", "0")
		w.Create(j)
		time.Sleep(time.Minute)
		late := controltest.Simulate("late", "1s", "0")
		p := &corev1.Pod{ObjectMeta: late.Spec.Template.ObjectMeta, Spec: late.Spec.Template.Spec}
		p.Namespace, p.Name, p.UID, p.CreationTimestamp = j.Namespace, "late", "late", metav1.NewTime(w.Clock())
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(w.Job("j"), batchv1.SchemeGroupVersion.WithKind("Job"))}
		w.Put(objects.Key(objects.Pods, p), p)
		time.Sleep(time.Minute)
		if !slices.ContainsFunc(w.Pods(), func(p *corev1.Pod) bool { return p.Name == "late" && p.Status.Phase == corev1.PodSucceeded }) {
			t.Fatalf("the pods: %+v", w.Pods())
		}
		w.Write(func(tx *store.Tx) error { tx.Delete(objects.Key(objects.Jobs, j)); return nil })
		time.Sleep(time.Minute)
		w.Stop()
		w.Start()
		time.Sleep(time.Minute)
		if all := w.history(); len(all) != 1 || all[0].Result != wire.Complete {
			t.Errorf("the history says %+v", all)
		}
		if a, b, _ := w.open(); a+b != 0 {
			t.Errorf("%d usages and %d accounts are left", a, b)
		}
	})
}

// A Job that another controller ends is history as others are, whatever the daemon has seen of its end, and once.
func TestHistoryOfAJobOfAnotherController(t *testing.T) {
	ended := func(w *world, j *batchv1.Job) *batchv1.Job {
		j = j.DeepCopy()
		now := metav1.NewTime(w.Clock())
		j.Status = batchv1.JobStatus{StartTime: &j.CreationTimestamp, CompletionTime: &now, Succeeded: 1, Conditions: []batchv1.JobCondition{
			{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, Reason: "Done", LastTransitionTime: now},
		}}
		return j
	}
	key := store.Key(objects.Jobs, "default", "j")
	remove := func(w *world) { w.Write(func(tx *store.Tx) error { tx.Delete(key); return nil }) }
	touch := func(w *world) {
		j := w.Job("j")
		j.Labels = map[string]string{"seen": "again"}
		w.Put(key, j)
	}
	for name, c := range map[string]struct {
		then   func(w *world, j *batchv1.Job)
		result string
	}{
		"it ends":                        {func(w *world, j *batchv1.Job) { w.Put(key, ended(w, j)) }, wire.Complete},
		"it ends, and is changed later":  {func(w *world, j *batchv1.Job) { w.Put(key, ended(w, j)); time.Sleep(time.Second); touch(w) }, wire.Complete},
		"it ends, and is removed":        {func(w *world, j *batchv1.Job) { w.Put(key, ended(w, j)); time.Sleep(time.Second); remove(w) }, wire.Complete},
		"it ends and is removed at once": {func(w *world, j *batchv1.Job) { w.endAndRemove(key, ended(w, j)) }, wire.Complete},
		"it is removed before its end":   {func(w *world, j *batchv1.Job) { remove(w) }, wire.Deleted},
		"a restart comes before its end": {func(w *world, j *batchv1.Job) { w.Stop(); w.Start(); w.Put(key, ended(w, j)) }, wire.Complete},
		"a restart comes after its end": {
			func(w *world, j *batchv1.Job) { w.Put(key, ended(w, j)); time.Sleep(time.Second); w.Stop(); w.Start() },
			wire.Complete,
		},
		"the daemon does not see it end": {
			func(w *world, j *batchv1.Job) { w.meanwhile(func(tx *store.Tx) { mustPut(w.T, tx, key, ended(w, j)) }) },
			wire.Complete,
		},
		"the daemon does not see it go": {func(w *world, j *batchv1.Job) { w.meanwhile(func(tx *store.Tx) { tx.Delete(key) }) }, wire.Deleted},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{controltest.New(t)}
				defer w.End()
				j := controltest.Simulate("j", "1s", "0")
				j.Spec.ManagedBy = ptr.To("example.com/other")
				w.Create(j)
				time.Sleep(2 * time.Second)
				c.then(w, w.Job("j"))
				time.Sleep(time.Second)
				w.Stop()
				w.Start()
				time.Sleep(time.Second)
				all := w.history()
				if len(all) != 1 || all[0].Result != c.result || all[0].ManagedBy != "example.com/other" || all[0].UID != string(j.UID) {
					t.Errorf("the history says %+v", all)
				}
				if succeeded := map[string]int{wire.Complete: 1}[c.result]; len(all) == 1 && all[0].Succeeded != succeeded {
					t.Errorf("the history says that %d pods have succeeded, and %d have", all[0].Succeeded, succeeded)
				}
				if a, b, _ := w.open(); a+b != 0 {
					t.Errorf("%d usages and %d accounts are left", a, b)
				}
			})
		})
	}
}

// endAndRemove writes the end of a Job and removes it before the loop has seen either.
func (w *world) endAndRemove(key string, ended *batchv1.Job) {
	w.T.Helper()
	w.Write(func(tx *store.Tx) error {
		mustPut(w.T, tx, key, ended)
		return nil
	})
	w.Write(func(tx *store.Tx) error {
		tx.Delete(key)
		return nil
	})
}

// meanwhile changes what is stored while no daemon runs.
func (w *world) meanwhile(change func(*store.Tx)) {
	w.T.Helper()
	w.Stop()
	s, err := store.Open(w.Path, store.Options{NoSync: true})
	if err != nil {
		w.T.Fatal(err)
	}
	if err := s.Update(w.T.Context(), func(tx *store.Tx) error { change(tx); return nil }); err != nil {
		w.T.Fatal(err)
	}
	if err := s.Close(); err != nil {
		w.T.Fatal(err)
	}
	w.Start()
}

func mustPut(t testing.TB, tx *store.Tx, key string, j *batchv1.Job) {
	t.Helper()
	value, err := scheme.Encode(j)
	if err != nil {
		t.Fatal(err)
	}
	o := store.Object{Key: key, UID: string(j.UID), Value: value}
	if _, err := storage.Put(tx, &o); err != nil {
		t.Fatal(err)
	}
}
