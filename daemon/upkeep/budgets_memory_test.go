package upkeep

import (
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// What is known of a namespace goes with its last budget, whoever removes that: the loop does, with the namespace or an owner.
func TestANamespaceWithoutBudgetsIsForgotten(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "jobd.db"), store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	of := metav1.ObjectMeta{Name: "one", Namespace: "default", UID: "1"}
	budget, pod := &policyv1.PodDisruptionBudget{ObjectMeta: of}, &corev1.Pod{ObjectMeta: of}
	budget.Spec.Selector = &metav1.LabelSelector{}
	gone := map[string]store.Object{}
	if err := s.Update(t.Context(), func(tx *store.Tx) error {
		for resource, obj := range map[string]objects.Object{objects.Budgets: budget, objects.Pods: pod} {
			value, err := scheme.Encode(obj)
			if err != nil {
				return err
			}
			gone[resource] = store.Object{Key: objects.Key(resource, obj), UID: "1", Value: value}
			tx.Put(gone[resource])
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	b := NewBudgets(&loop.Timers{})
	if err := s.View(func(s *store.Snapshot) error { return b.Rebuild(s, time.Now()) }); err != nil {
		t.Fatal(err)
	}
	guarded := b.guarded["default"]
	if guarded == nil || len(guarded.pods) != 1 {
		t.Fatalf("a namespace with a budget and a pod is known as %+v", guarded)
	}
	if b.Gone(nil, gone[objects.Pods]); len(guarded.pods) != 0 {
		t.Error("a pod that is gone is known")
	}
	if b.Gone(nil, gone[objects.Budgets]); len(b.guarded) != 0 {
		t.Error("a namespace is known that has no budget any longer")
	}
}
