package pressure

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/store"
)

// An event about the Node counts as any other does: it is deleted as they are when it expires.
func TestAQuotaCountsEventsAboutTheNode(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "db"), store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	limit := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "q"}}
	limit.Spec.Hard = corev1.ResourceList{"count/events": resource.MustParse("100")}
	value, err := scheme.Encode(limit)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), func(tx *store.Tx) error {
		_, err := storage.Put(tx, &store.Object{Key: store.Key(storage.ResourceQuotaResource, "default", "q"), Value: value})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	NewNode(s, "node", time.Hour, slog.New(slog.DiscardHandler)).Tell(t.Context(), corev1.EventTypeWarning, "Full", "the disk is full")
	if err := s.View(func(snapshot *store.Snapshot) error {
		quotas, err := storage.ResourceQuotas(snapshot, "default")
		if err != nil {
			return err
		}
		if n := quotas[0].Status.Used["count/events"]; n.String() != "1" {
			t.Errorf("%s events are counted", n.String())
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
