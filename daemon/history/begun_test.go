package history_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/history"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// That a pod of a Job was bound stays known while the Job is there, also when the pod is gone, and over a restart.
func TestBegun(t *testing.T) {
	for name, bound := range map[string]bool{"a pod ran": true, "a pod waited": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{controltest.New(t)}
				defer w.End()
				j := controltest.Simulate("j", "1h", "0")
				if !bound {
					j.Spec.Template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/not-yet"}}
				}
				w.Create(j)
				want := func(when string, want bool) {
					t.Helper()
					if err := w.Store.View(func(s *store.Snapshot) error {
						begun, err := history.Begun(s, w.Job("j"))
						if begun != want {
							t.Errorf("%s: %t, want %t", when, begun, want)
						}
						return err
					}); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(10 * time.Second)
				want("with its pod", bound)
				stopped := w.Job("j")
				stopped.Spec.Suspend = ptr.To(true)
				w.Put(objects.Key(objects.Jobs, stopped), stopped)
				time.Sleep(5 * time.Minute)
				if pods := w.Pods(); len(pods) > 0 {
					t.Fatalf("it is suspended and has %d pods", len(pods))
				}
				want("without pods", bound)
				w.Stop()
				w.Start()
				want("after a restart", bound)
			})
		})
	}
}
