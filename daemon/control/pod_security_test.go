package control_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

func TestPodsOfAJobThatTheNamespaceRefusesAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		level := func(level string) {
			ns := &corev1.Namespace{}
			ns.Name, ns.Labels = "default", map[string]string{"pod-security.kubernetes.io/enforce": level}
			w.Put(store.Key(objects.Namespaces, "", "default"), ns)
		}
		level("baseline")
		plain := controltest.Simulate("plain", "0s", "0")
		w.Create(plain)
		j := controltest.Simulate("mighty", "0s", "0,0,0")
		j.Spec.Parallelism, j.Spec.Completions = ptr.To[int32](3), ptr.To[int32](3)
		j.Spec.Template.Spec.HostNetwork = true
		w.Create(j)
		time.Sleep(time.Minute)
		var said []*corev1.Event
		if err := w.Store.View(func(s *store.Snapshot) error {
			return objects.Each(s, objects.Events, func(_ string, e *corev1.Event) error {
				if e.Reason == "FailedCreate" {
					said = append(said, e)
				}
				return nil
			})
		}); err != nil {
			t.Fatal(err)
		}
		tries := 0
		for _, e := range said {
			tries += int(max(e.Count, 1))
			if !strings.HasPrefix(e.Message, `Error creating: pods "mighty-`) ||
				!strings.HasSuffix(e.Message, `" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`) {
				t.Errorf("said %q", e.Message)
			}
		}
		// One pod of the three is tried at a time, after delays that grow.
		if tries < 3 || tries > 10 || len(w.Pods()) != 1 || !objects.Finished(w.Job("plain")) || objects.Finished(w.Job("mighty")) {
			t.Errorf("%d tries, %d pods", tries, len(w.Pods()))
		}
		level("privileged")
		time.Sleep(time.Hour)
		if !objects.Finished(w.Job("mighty")) {
			t.Error("the Job does not go on once its pods are let in")
		}
	})
}
