package control_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// Where the disk has no room for more objects of a namespace, the loop creates none either: a Job of a megabyte would become any number of
// pods of a megabyte. Its pods come when there is room, and those of other namespaces are created all the while.
func TestANamespaceThatIsFullGetsNoPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer func() { w.End() }()
		w.Stop()
		var full atomic.Bool
		full.Store(true)
		w.Full = func(namespace string) error {
			if namespace == "default" && full.Load() {
				return errors.New("the disk of jobd has no room")
			}
			return nil
		}
		w.Start()
		w.Put(store.Key(objects.Namespaces, "", "other"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "other"}})
		for _, namespace := range []string{"default", "other"} {
			j := controltest.Simulate("j", "1s", "0")
			j.Namespace, j.Spec.Completions = namespace, ptr.To[int32](2)
			w.Create(j)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if pods := w.Pods(); len(pods) != 2 || pods[0].Namespace != "other" {
			t.Errorf("%d pods", len(pods))
		}
		if told := strings.Join(w.Events("j"), "\n"); !strings.Contains(told, "has no room") {
			t.Errorf("events: %s", told)
		}
		full.Store(false)
		time.Sleep(15 * time.Minute)
		synctest.Wait()
		if j := w.Job("j"); !objects.Finished(j) || j.Status.Succeeded != 2 {
			t.Errorf("%+v", j.Status)
		}
	})
}
