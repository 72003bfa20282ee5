package server

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/store"
)

func TestBothShapesOfAnEvent(t *testing.T) {
	ts := startServer(t)
	c := ts.client(t)
	now := metav1.NewMicroTime(time.Now().Truncate(time.Microsecond))
	mustMake(t, c.EventsV1().Events("default"), &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e"}, EventTime: now, ReportingController: "x.dev/y", ReportingInstance: "i",
		Action: "Act", Reason: "Because", Note: "words", Type: "Normal",
		Regarding: corev1.ObjectReference{Kind: "Job", Name: "a", Namespace: "default"},
	})
	older, err := c.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=a"})
	if err != nil || len(older.Items) != 1 || older.Items[0].Message != "words" {
		t.Fatalf("%v: %v", older, err)
	}
	newer, err := c.EventsV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "regarding.name=a,reportingController=x.dev/y"})
	if err != nil || len(newer.Items) != 1 || newer.Items[0].Note != "words" || !newer.Items[0].EventTime.Equal(&now) {
		t.Fatalf("%v: %v", newer, err)
	}
	var expires int64
	if err := ts.store.View(func(s *store.Snapshot) error {
		o, _ := s.Get(store.Key("events", "default", "e"))
		expires = o.Expires
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if left := time.Until(time.Unix(expires, 0)); left < 59*time.Minute || left > time.Hour {
		t.Errorf("it is kept for %v", left)
	}
}
