package controltest

import (
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// Limit writes a ResourceQuota.
func (w *World) Limit(name string, hard corev1.ResourceList) {
	w.T.Helper()
	w.Put(store.Key(storage.ResourceQuotaResource, "default", name), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ResourceQuotaSpec{Hard: hard},
	})
}

// Used returns what a ResourceQuota says is used once everything that is due has happened.
func (w *World) Used(name string, of corev1.ResourceName) string {
	w.T.Helper()
	synctest.Wait()
	q := &corev1.ResourceQuota{}
	if err := w.Store.View(func(s *store.Snapshot) error {
		_, err := objects.Read(s, store.Key(storage.ResourceQuotaResource, "default", name), q)
		return err
	}); err != nil {
		w.T.Fatal(err)
	}
	used := q.Status.Used[of]
	return used.String()
}
