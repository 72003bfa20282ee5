package control_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
)

func TestAPrioritizedJobStartsBeforeOlderOnes(t *testing.T) {
	for name, restart := range map[string]bool{"at once": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := small(t)
				defer w.End()
				for _, name := range []string{"runs", "first", "second"} {
					j := controltest.Simulate(name, "1m", "0")
					j.Spec.Template.Spec.Containers = controltest.Asking("2")
					w.Create(j)
					time.Sleep(2 * time.Second)
				}
				second := w.Job("second")
				places, err := w.Control.Places(t.Context())
				if err != nil || places[second.UID] != 2 || len(places) != 2 {
					t.Errorf("%v %v", places, err)
				}
				second.Annotations = map[string]string{batch.PrioritizedAnnotation: time.Now().Format(time.RFC3339Nano)}
				w.Put(objects.Key(objects.Jobs, second), second)
				synctest.Wait()
				if restart {
					w.Stop()
					w.Start()
				}
				if places, _ := w.Control.Places(t.Context()); places[second.UID] != 1 {
					t.Errorf("its place is %d", places[second.UID])
				}
				facts, err := w.Control.JobFacts(t.Context(), second)
				if err != nil || len(facts.Rooms) != 1 || len(facts.Holders) != 1 || facts.Standing == nil {
					t.Errorf("%+v %v", facts, err)
				}
				time.Sleep(time.Minute)
				for _, p := range w.Pods() {
					started := p.Status.Phase == corev1.PodRunning
					if want := p.Labels["job-name"] == "second"; started != want && p.Labels["job-name"] != "runs" {
						t.Errorf("%s runs: %v", p.Name, started)
					}
				}
			})
		})
	}
}
