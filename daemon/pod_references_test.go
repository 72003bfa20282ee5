package daemon

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/store"
)

func TestPodsOfAClassThatIsNotThereWaitForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		j := simulate("a", "0s", "0")
		j.Spec.Template.Spec.PriorityClassName = "high"
		w.create(j)
		time.Sleep(time.Second)
		var said []string
		if err := w.store.View(func(s *store.Snapshot) error {
			return each(s, eventsV1, func() *corev1.Event { return &corev1.Event{} }, func(_ string, e *corev1.Event) error {
				said = append(said, e.Reason+": "+e.Message)
				return nil
			})
		}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(said, "\n"); len(w.pods()) != 0 || !strings.Contains(got, `FailedCreate: Error creating: pods "a-" is forbidden: no PriorityClass with name high was found`) {
			t.Errorf("%d pods, %s", len(w.pods()), got)
		}
		w.put("priorityclasses.scheduling.k8s.io/high", &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 7})
		time.Sleep(time.Hour)
		if pods := w.pods(); len(pods) != 1 || *pods[0].Spec.Priority != 7 || !finished(w.job("a")) {
			t.Errorf("once it is there: %v", pods)
		}
	})
}
