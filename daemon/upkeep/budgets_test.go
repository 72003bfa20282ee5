package upkeep_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/disruption"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// A budget follows its pods, across restarts of the daemon, and what evictions take from it.
func TestBudgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.Small(t)
		defer w.End()
		labelled := func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} }
		w.Bare("a", "1", "1h", labelled)
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: uuid.NewUUID(), Generation: 1}}
		b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		b.Spec.MinAvailable = ptr.To(intstr.FromInt32(1))
		key := objects.Key(objects.Budgets, b)
		w.Put(key, b)
		is := func(when, want string) {
			t.Helper()
			time.Sleep(2 * time.Second)
			if !w.Read(key, b) {
				t.Fatalf("%s: the budget is gone", when)
			}
			s := b.Status
			if got := fmt.Sprintf("%d: %d/%d of %d", s.DisruptionsAllowed, s.CurrentHealthy, s.DesiredHealthy, s.ExpectedPods); got != want {
				t.Errorf("%s: %s, want %s", when, got, want)
			}
		}
		is("with one pod", "0: 1/1 of 1")
		w.Bare("b", "1", "1h", labelled)
		w.Bare("other", "1", "1h", nil)
		is("with two", "1: 2/1 of 2")
		w.Stop()
		w.Start()
		is("after a restart", "1: 2/1 of 2")

		if err := disruption.Take(b, "b", time.Now()); err != nil {
			t.Fatal(err)
		}
		w.Put(key, b)
		is("when one may be evicted", "0: 1/1 of 2")
		time.Sleep(3 * time.Minute)
		is("when it was not", "1: 2/1 of 2")
		w.Write(func(tx *store.Tx) error { tx.Delete(store.Key(objects.Pods, "default", "b")); return nil })
		is("when it is gone", "0: 1/1 of 1")
		w.Bare("c", "1", "10s", labelled)
		is("with another one", "1: 2/1 of 2")
		time.Sleep(20 * time.Second)
		is("when that has ended", "0: 1/1 of 2")

		b.Spec.MinAvailable = ptr.To(intstr.FromString("50%"))
		b.Generation++
		w.Put(key, b)
		is("as a percentage of pods without a scale", "0: 1/0 of 0")
		w.Write(func(tx *store.Tx) error { tx.Delete(key); return nil })
	})
}
