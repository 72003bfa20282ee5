package control_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

func TestANamespaceTellsWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		ns := &corev1.Namespace{}
		ns.Name, ns.UID, ns.Spec.Finalizers = "n", "n", []corev1.FinalizerName{corev1.FinalizerKubernetes}
		w.Put("namespaces/n", ns)
		held := map[string]*corev1.ConfigMap{}
		for name, finalizers := range map[string][]string{"a": {"example.com/x"}, "b": {"example.com/x", "example.com/y"}, "c": nil} {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n", UID: "u", Finalizers: finalizers}}
			w.Put(objects.Key(objects.ConfigMaps, cm), cm)
			held[name] = cm
		}
		storage.MarkDeleted(ns, time.Now(), 0)
		w.Put("namespaces/n", ns)

		says := func(wantRemaining, wantFinalizers string) {
			t.Helper()
			synctest.Wait()
			ns := &corev1.Namespace{}
			if !w.Read("namespaces/n", ns) || len(ns.Status.Conditions) != 5 {
				t.Fatalf("conditions: %+v", ns.Status.Conditions)
			}
			for kind, want := range map[corev1.NamespaceConditionType]string{
				corev1.NamespaceDeletionContentFailure: "False: All content successfully deleted, may be waiting on finalization",
				corev1.NamespaceContentRemaining:       "True: Some resources are remaining: " + wantRemaining,
				corev1.NamespaceFinalizersRemaining:    "True: Some content in the namespace has finalizers remaining: " + wantFinalizers,
			} {
				for _, c := range ns.Status.Conditions {
					if got := string(c.Status) + ": " + c.Message; c.Type == kind && got != want {
						t.Errorf("%s is %q, want %q", kind, got, want)
					}
				}
			}
		}
		says("configmaps. has 2 resource instances", "example.com/x in 2 resource instances, example.com/y in 1 resource instances")

		release := func(name string) {
			w.Write(func(tx *store.Tx) error { tx.Delete(objects.Key(objects.ConfigMaps, held[name])); return nil })
		}
		release("b")
		time.Sleep(2 * time.Second)
		says("configmaps. has 1 resource instances", "example.com/x in 1 resource instances")
		release("a")
		synctest.Wait()
		if w.Read("namespaces/n", &corev1.Namespace{}) {
			t.Error("it is still there")
		}
	})
}

// A namespace whose object went before its contents leaves nothing behind for the next one of its name.
func TestANamespaceOfAnEarlierNameIsEmptiedFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		make := func(uid types.UID) *corev1.Namespace {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: uid}}
			ns.Spec.Finalizers = []corev1.FinalizerName{corev1.FinalizerKubernetes}
			w.Put("namespaces/n", ns)
			return ns
		}
		remove := func(ns *corev1.Namespace) {
			storage.MarkDeleted(ns, time.Now(), 0)
			w.Put("namespaces/n", ns)
			synctest.Wait()
		}
		first := make("first")
		w.Put("configmaps/n/a", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "n", UID: "a", Finalizers: []string{"example.com/x"}}})
		remove(first)
		w.Write(func(tx *store.Tx) error { tx.Delete("namespaces/n"); return nil })
		synctest.Wait()
		second := make("second")
		for _, name := range []string{"b", "c"} {
			w.Put("configmaps/n/"+name, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n", UID: types.UID(name)}})
		}
		remove(second)
		for _, name := range []string{"b", "c"} {
			if w.Read("configmaps/n/"+name, &corev1.ConfigMap{}) {
				t.Errorf("%s is still there", name)
			}
		}
	})
}
