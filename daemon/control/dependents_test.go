package control_test

import (
	"testing"
	"testing/synctest"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

func TestWhatBecomesOfTheDependentsOfAJob(t *testing.T) {
	const alone, shared = "configmaps/default/alone", "configmaps/default/shared"
	remove := func(w *world, j *batchv1.Job) {
		w.Write(func(tx *store.Tx) error { tx.Delete(objects.Key(objects.Jobs, j)); return nil })
	}
	for _, tc := range []struct {
		name     string
		delete   func(*world, *batchv1.Job)
		survives bool
	}{
		{"they go with it", remove, false},
		{"they go when it went while the daemon was down", func(w *world, j *batchv1.Job) {
			w.Stop()
			s, err := store.Open(w.Path, store.Options{NoSync: true})
			if err != nil {
				w.T.Fatal(err)
			}
			w.Store = s
			remove(w, j)
			if err := s.Close(); err != nil {
				w.T.Fatal(err)
			}
			w.Start()
		}, false},
		{"they are orphaned", func(w *world, j *batchv1.Job) {
			storage.MarkDeleted(j, j.CreationTimestamp.Time, 0)
			storage.SetPropagation(j, metav1.DeletePropagationOrphan)
			w.Put(objects.Key(objects.Jobs, j), j)
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.End()
				j := controltest.Simulate("a", "1h", "0")
				w.Create(j)
				synctest.Wait()
				j = w.Job("a")
				owner := metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: "a", UID: j.UID}
				w.Put("secrets/default/other", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "other", Namespace: "default", UID: "other"}})
				for key, owners := range map[string][]metav1.OwnerReference{
					alone: {owner}, shared: {owner, {APIVersion: "v1", Kind: "Secret", Name: "other", UID: "other"}},
				} {
					w.Put(
						key,
						&corev1.ConfigMap{
							ObjectMeta: metav1.ObjectMeta{Name: key[len("configmaps/default/"):], Namespace: "default", UID: "u", OwnerReferences: owners},
						},
					)
				}
				tc.delete(w, j)
				synctest.Wait()
				cm := &corev1.ConfigMap{}
				if w.Read(alone, cm) != tc.survives || tc.survives && len(cm.OwnerReferences) > 0 {
					t.Errorf("owned by it alone: %+v", cm)
				}
				cm = &corev1.ConfigMap{}
				if !w.Read(shared, cm) || len(cm.OwnerReferences) != 1 || cm.OwnerReferences[0].UID != "other" {
					t.Errorf("owned by another too: %+v", cm)
				}
			})
		})
	}
}
