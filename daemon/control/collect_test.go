package control_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// finishedJob puts a Job that is complete and its pods into the store.
func (w *world) finishedJob(name string, n int) *batchv1.Job {
	w.T.Helper()
	j := controltest.Simulate(name, "0s", "0")
	j.Spec.Suspend = ptr.To(true)
	w.Create(j)
	j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	j.Status.CompletionTime = ptr.To(metav1.Now())
	w.Put(objects.Key(objects.Jobs, j), j)
	w.Write(func(tx *store.Tx) error {
		for i := range n {
			p := &corev1.Pod{}
			p.Namespace, p.Name = "default", fmt.Sprintf("%s-%d", name, i)
			p.UID, p.Labels = types.UID(p.Name), j.Spec.Template.Labels
			p.Spec = j.Spec.Template.Spec
			p.Spec.NodeName = "test"
			p.Status.Phase = corev1.PodSucceeded
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse, Reason: "PodSandboxNotReady"}}
			p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))}
			value, err := scheme.Encode(p)
			if err != nil {
				return err
			}
			tx.Put(store.Object{Key: objects.Key(objects.Pods, p), UID: string(p.UID), Owners: []string{string(j.UID)}, Value: value})
		}
		return nil
	})
	synctest.Wait()
	return j
}

// cost returns what fn allocates: a measure of work that does not depend on what else the machine does.
func cost(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	synctest.Wait()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}

// removals are the ways in which the pods of a Job are removed together with something else.
var removals = map[string]func(*world, *batchv1.Job){
	"in the background": func(w *world, j *batchv1.Job) {
		w.Write(func(tx *store.Tx) error { tx.Delete(objects.Key(objects.Jobs, j)); return nil })
	},
	"in the foreground": func(w *world, j *batchv1.Job) {
		storage.SetPropagation(j, metav1.DeletePropagationForeground)
		storage.MarkDeleted(j, time.Now(), 0)
		w.Put(objects.Key(objects.Jobs, j), j)
	},
	"with the namespace": func(w *world, _ *batchv1.Job) {
		ns := &corev1.Namespace{}
		ns.Name = "default"
		storage.MarkDeleted(ns, time.Now(), 0)
		w.Put(store.Key(objects.Namespaces, "", "default"), ns)
	},
}

func TestDeletionCostsTheSameForEachPod(t *testing.T) {
	for rule, remove := range removals {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const few, many = loop.Budget, 4 * loop.Budget
				each := map[int]float64{}
				for _, n := range []int{few, many} {
					w := newWorld(t)
					j := w.finishedJob("j", n)
					version := w.Store.Version()
					spent := cost(func() { remove(w, j) })
					each[n] = float64(spent) / float64(n)
					if left := w.Pods(); len(left) > 0 {
						t.Errorf("%d of %d pods are left", len(left), n)
					}
					if writes := w.Store.Version() - version; writes > uint64(2*n+n/10) {
						t.Errorf("%d writes for %d pods, want a last state and the end of each", writes, n)
					}
					w.End()
				}
				if each[many] > 1.5*each[few] {
					t.Errorf("%.0f allocations for each of %d pods, %.0f for each of %d", each[few], few, each[many], many)
				}
			})
		})
	}
}

func TestPodsThatTakeTheirTimeAreAskedOnce(t *testing.T) {
	for rule, remove := range removals {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.End()
				const n = loop.Budget + loop.Budget/4
				w.MaxPods = n
				w.Stop()
				w.Start()
				j := controltest.Simulate("j", "1h", "0")
				j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](n), ptr.To[int32](n)
				w.Create(j)
				if running := w.Control.Running; len(w.Pods()) != n || running() != n {
					t.Fatalf("%d pods, of which %d run", len(w.Pods()), running())
				}
				remove(w, w.Job("j"))
				if left := len(w.Pods()); left > 0 {
					t.Errorf("%d pods are left: all of them end at once when they are asked to", left)
				}
				if w.Job("j") != nil {
					t.Error("the Job is still there")
				}
			})
		})
	}
}

func TestAnOwnerIsNotWaitedForByWhatWasLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		w.Create(controltest.Simulate("j", "1h", "0"))
		p, j := w.Pods()[0], w.Job("j")
		p.Finalizers = append(p.Finalizers, "example.com/hold")
		w.Put(objects.Key(objects.Pods, p), p)
		synctest.Wait()
		storage.SetPropagation(j, metav1.DeletePropagationForeground)
		storage.MarkDeleted(j, time.Now(), 0)
		w.Put(objects.Key(objects.Jobs, j), j)
		time.Sleep(time.Minute)
		if w.Job("j") == nil || len(w.Pods()) != 1 {
			t.Fatal("the Job does not wait for a pod that somebody holds")
		}
		p = w.Pods()[0]
		storage.DropOwner(p, string(j.UID))
		w.Put(objects.Key(objects.Pods, p), p)
		if w.Job("j") != nil {
			t.Error("the Job waits for a pod that is not its own any more")
		}
	})
}

// An object of another namespace that names an owner keeps it for as long as it likes, if that owner waits for it.
func TestADeletionWaitsForNothingOfOtherNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		j := w.finishedJob("j", 1)
		held := &corev1.ConfigMap{}
		held.Namespace, held.Name, held.UID, held.Finalizers = "other", "held", "held", []string{"example.com/hold"}
		held.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: j.UID, BlockOwnerDeletion: ptr.To(true),
		}}
		w.Write(func(tx *store.Tx) error {
			value, err := scheme.Encode(held)
			tx.Put(store.Object{Key: store.Key(objects.ConfigMaps, "other", "held"), UID: "held", Owners: []string{string(j.UID)}, Value: value})
			return err
		})
		storage.SetPropagation(j, metav1.DeletePropagationForeground)
		storage.MarkDeleted(j, time.Now(), 0)
		w.Put(objects.Key(objects.Jobs, j), j)
		time.Sleep(time.Minute)
		if w.Job("j") != nil {
			t.Error("the Job waits for an object of another namespace")
		}
	})
}
