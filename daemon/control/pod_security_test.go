package control

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

func TestPodsOfAJobThatTheNamespaceRefusesAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		level := func(level string) {
			ns := &corev1.Namespace{}
			ns.Name, ns.Labels = "default", map[string]string{"pod-security.kubernetes.io/enforce": level}
			w.put(store.Key(objects.Namespaces, "", "default"), ns)
		}
		level("baseline")
		plain := simulate("plain", "0s", "0")
		w.create(plain)
		j := simulate("mighty", "0s", "0,0,0")
		j.Spec.Parallelism, j.Spec.Completions = ptr.To[int32](3), ptr.To[int32](3)
		j.Spec.Template.Spec.HostNetwork = true
		w.create(j)
		time.Sleep(time.Minute)
		var said []*corev1.Event
		if err := w.store.View(func(s *store.Snapshot) error {
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
		if tries < 3 || tries > 10 || len(w.pods()) != 1 || !objects.Finished(w.job("plain")) || objects.Finished(w.job("mighty")) {
			t.Errorf("%d tries, %d pods", tries, len(w.pods()))
		}
		level("privileged")
		time.Sleep(time.Hour)
		if !objects.Finished(w.job("mighty")) {
			t.Error("the Job does not go on once its pods are let in")
		}
	})
}
