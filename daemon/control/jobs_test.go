package control_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/store"
)

func TestAJobRunsToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		j := controltest.Simulate("j", "3s", "0")
		j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](5), ptr.To[int32](2)
		j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
		w.Create(j)
		began := time.Now()
		time.Sleep(10 * time.Second)
		got := w.Job("j")
		if !objects.Finished(got) || got.Status.Succeeded != 5 || got.Status.CompletedIndexes != "0-4" {
			t.Fatalf("after 10s: %+v", got.Status)
		}
		if end := got.Status.CompletionTime.Sub(began); end < 8*time.Second || end > 9*time.Second {
			t.Errorf("complete after %v, want the 9 s that three rounds of 3 s take", end)
		}
		for _, p := range w.Pods() {
			if len(p.Finalizers) > 0 || !pod.Done(p) {
				t.Errorf("pod %s: finalizers %v, phase %s", p.Name, p.Finalizers, p.Status.Phase)
			}
		}
		if n := w.Control.Records(); n > 0 {
			t.Errorf("%d records are kept of a finished Job", n)
		}
	})
}

func TestWhatPeopleOnlySeeIsStoredWithWhatFollows(t *testing.T) {
	for name, c := range map[string]struct {
		duration string
		seen     []corev1.PodPhase // of the pod, one after the other
	}{
		"a pod that ends within a moment is never stored as running": {"5ms", []corev1.PodPhase{corev1.PodPending, corev1.PodSucceeded}},
		"one that goes on is, though nothing else happens":           {"1h", []corev1.PodPhase{corev1.PodPending, corev1.PodRunning}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.End()
				begin := w.Store.Version()
				w.Create(controltest.Simulate("j", c.duration, "0"))
				time.Sleep(2 * loop.BatchDelay)
				synctest.Wait()
				var seen []corev1.PodPhase
				if err := w.Store.View(func(s *store.Snapshot) error {
					return s.Changes(begin, func(change store.Change) bool {
						if objects.ResourceOf(change.Object.Key) == objects.Pods {
							p := &corev1.Pod{}
							if err := objects.Decode(change.Object, p); err != nil {
								t.Error(err)
							}
							seen = append(seen, p.Status.Phase)
						}
						return true
					})
				}); err != nil {
					t.Fatal(err)
				}
				if got := slices.Compact(seen); !slices.Equal(got, c.seen) {
					t.Errorf("stored as %v, want %v", got, c.seen)
				}
			})
		})
	}
}

func TestBackoffIsToTheSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		j := controltest.Simulate("j", "1s", "1")
		j.Spec.BackoffLimit = ptr.To[int32](3)
		w.Create(j)
		began := time.Now()
		time.Sleep(5 * time.Minute)
		got := w.Job("j")
		if !objects.Finished(got) || got.Status.Failed != 4 {
			t.Fatalf("%+v", got.Status)
		}
		var at []string
		for _, p := range w.Pods() {
			at = append(at, p.CreationTimestamp.Sub(began.Truncate(time.Second)).String())
		}
		if want := []string{"0s", "11s", "32s", "1m13s"}; !slices.Equal(at, want) {
			t.Errorf("pods were created at %v, want %v", at, want)
		}
	})
}

func TestNothingIsCountedTwiceAcrossRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		j := controltest.Simulate("j", "3s", "1:1,4:1,7:1")
		j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](10), ptr.To[int32](3)
		j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
		j.Spec.BackoffLimitPerIndex = ptr.To[int32](0)
		w.Create(j)
		for range 20 {
			time.Sleep(700 * time.Millisecond)
			w.Stop()
			time.Sleep(300 * time.Millisecond)
			w.Start()
		}
		got := w.Job("j")
		if !objects.Finished(got) || got.Status.Succeeded != 7 || got.Status.Failed != 3 || *got.Status.FailedIndexes != "1,4,7" {
			t.Fatalf("%+v", got.Status)
		}
		if n := len(w.Pods()); n != 10 {
			t.Errorf("%d pods, want 10", n)
		}
	})
}

func TestDeletionTakesWhatItShould(t *testing.T) {
	for policy, want := range map[metav1.DeletionPropagation]int{
		metav1.DeletePropagationBackground: 0,
		metav1.DeletePropagationForeground: 0,
		metav1.DeletePropagationOrphan:     2,
	} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.End()
				j := controltest.Simulate("j", "1h", "0")
				j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](2), ptr.To[int32](2)
				w.Create(j)
				if n := len(w.Pods()); n != 2 {
					t.Fatalf("%d pods run, want 2", n)
				}
				got := w.Job("j")
				if storage.SetPropagation(got, policy); policy == metav1.DeletePropagationBackground {
					w.Write(func(tx *store.Tx) error { tx.Delete(objects.Key(objects.Jobs, got)); return nil })
				} else {
					storage.MarkDeleted(got, time.Now(), 0)
					w.Put(objects.Key(objects.Jobs, got), got)
				}
				time.Sleep(time.Minute)
				if got := w.Job("j"); got != nil {
					t.Errorf("the Job is still there: %+v", got.ObjectMeta)
				}
				left := w.Pods()
				if len(left) != want {
					t.Errorf("%d pods are left, want %d", len(left), want)
				}
				for _, p := range left {
					if p.Status.Phase != corev1.PodRunning || len(p.OwnerReferences)+len(p.Finalizers) > 0 {
						t.Errorf("orphan %s: %s, owners %v, finalizers %v", p.Name, p.Status.Phase, p.OwnerReferences, p.Finalizers)
					}
				}
			})
		})
	}
}

func TestManualSelectorAdoptsOrphans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		old := controltest.Simulate("old", "1h", "0")
		w.Create(old)
		orphaned := w.Job("old")
		storage.SetPropagation(orphaned, metav1.DeletePropagationOrphan)
		storage.MarkDeleted(orphaned, time.Now(), 0)
		w.Put(objects.Key(objects.Jobs, orphaned), orphaned)
		synctest.Wait()

		j := controltest.Simulate("new", "1h", "0")
		j.Spec.ManualSelector = ptr.To(true)
		j.Spec.Selector = old.Spec.Selector
		j.Spec.Template.Labels = old.Spec.Template.Labels
		w.Create(j)
		pods := w.Pods()
		if len(pods) != 1 || !metav1.IsControlledBy(pods[0], w.Job("new")) {
			t.Fatalf("%d pods, want the one of the old Job, adopted", len(pods))
		}
		if got := w.Job("new"); got.Status.Active != 1 {
			t.Errorf("active %d, want 1", got.Status.Active)
		}
	})
}

func TestTTLRemovesAFinishedJobAlsoAfterDowntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		for name, ttl := range map[string]int32{"soon": 5, "later": 100, "at-once": 0} {
			j := controltest.Simulate(name, "1s", "0")
			j.Spec.TTLSecondsAfterFinished = &ttl
			w.Create(j)
		}
		time.Sleep(3 * time.Second)
		if w.Job("at-once") != nil || w.Job("soon") == nil {
			t.Error("after 3s: want at-once gone and soon there")
		}
		w.Stop()
		time.Sleep(30 * time.Second)
		w.Start()
		if w.Job("soon") != nil || w.Job("later") == nil {
			t.Error("after the downtime: want soon gone and later there")
		}
		if n := len(w.Pods()); n != 1 {
			t.Errorf("%d pods are left, want that of later", n)
		}
	})
}

func TestANamespaceGoesWithWhatIsInIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		w.Create(controltest.Simulate("running", "1h", "0"))
		w.Create(controltest.Simulate("done", "0s", "0"))
		held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held", Namespace: "default", Finalizers: []string{"example.com/hold"}}}
		heldKey := store.Key("configmaps", "default", "held")
		w.Put(heldKey, held)
		for i := range loop.Budget/2 + 1 { // more than one pass handles
			w.Put(store.Key("secrets", "default", fmt.Sprint(i)), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), Namespace: "default"}})
		}
		synctest.Wait()
		ns := &corev1.Namespace{}
		ns.Name = "default"
		ns.Spec.Finalizers = []corev1.FinalizerName{corev1.FinalizerKubernetes}
		storage.MarkDeleted(ns, time.Now(), 0)
		w.Put(store.Key(objects.Namespaces, "", "default"), ns)
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := w.Store.View(func(s *store.Snapshot) error {
			if o, ok := s.Get(heldKey); !ok || objects.Decode(o, held) != nil || held.DeletionTimestamp == nil || s.Count(objects.Namespaces+"/") != 1 {
				return fmt.Errorf("it does not wait for what is held: %v %+v", ok, held)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		w.Write(func(tx *store.Tx) error { tx.Delete(heldKey); return nil })
		synctest.Wait()
		if err := w.Store.View(func(s *store.Snapshot) error {
			resources := []string{objects.Namespaces, objects.Memories}
			for resource, k := range objects.Served() {
				if k.Namespaced {
					resources = append(resources, resource)
				}
			}
			for _, resource := range resources {
				if n := s.Count(resource + "/"); n > 0 {
					return fmt.Errorf("%d %s are left", n, resource)
				}
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
}

func TestAManyPodsJobOutlivesTheBudgetOfAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		const n = loop.Budget + 500
		w.MaxPods = 2 * n
		w.Stop()
		w.Start()
		j := controltest.Simulate("j", "1s", "0")
		j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](n), ptr.To[int32](n)
		j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
		w.Create(j)
		time.Sleep(time.Minute)
		if got := w.Job("j"); !objects.Finished(got) || got.Status.Succeeded != n {
			t.Fatalf("%+v", got.Status)
		}
		w.Write(func(tx *store.Tx) error { tx.Delete(store.Key(objects.Jobs, "default", "j")); return nil })
		if n := len(w.Pods()); n > 0 {
			t.Errorf("%d pods are left", n)
		}
	})
}
