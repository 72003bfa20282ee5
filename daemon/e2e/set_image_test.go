package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/testdata/images"
)

// TestAnotherImage changes the image of a running container: it is restarted with it, whatever its restart policy says,
// also when the daemon is killed in between.
func TestAnotherImage(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, d *daemon) {
		d.importImage(images.Busybox("docker.io/library/busybox:1.37"))
		d.apply(`
apiVersion: v1
kind: Pod
metadata: {name: changes}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: "busybox:1.36", command: [sleep, "100000"]}
  - {name: other, image: "busybox:1.36", command: [sleep, "100000"]}
`)
		d.jobctl("wait", "--for=condition=Ready", "pod/changes", patiently)
		if out := d.jobctl("set", "image", "pod/changes", "main=busybox:1.37", "--dry-run=server"); !strings.Contains(out, "image updated (server dry run)") {
			t.Errorf("a dry run: %s", out)
		}
		is := func(restarts int32, image string) func() error {
			return func() error {
				pod, err := d.CoreV1().Pods("default").Get(t.Context(), "changes", metav1.GetOptions{})
				if err != nil {
					return err
				}
				main, other := pod.Status.ContainerStatuses[0], pod.Status.ContainerStatuses[1]
				if main.RestartCount != restarts || main.Image != image || main.State.Running == nil || other.RestartCount > 0 ||
					pod.Status.Phase != corev1.PodRunning {
					return fmt.Errorf("%+v", pod.Status)
				}
				return nil
			}
		}
		if err := is(0, "docker.io/library/busybox:1.36")(); err != nil {
			t.Error(err)
		}
		d.jobctl("set", "image", "pod/changes", "main=busybox:1.37")
		d.eventually("it runs the other image", is(1, "docker.io/library/busybox:1.37"))
		if events := d.jobctl("events", "--for", "pod/changes"); !strings.Contains(events, "Container main definition changed, will be restarted") {
			t.Errorf("events: %s", events)
		}
		d.jobctl("patch", "pod", "changes", "-p", `{"spec":{"containers":[{"name":"main","image":"busybox:1.36"}]}}`)
		d.kill()
		d.serve()
		d.eventually("it runs the first image again", is(2, "docker.io/library/busybox:1.36"))
		d.kill()
		d.serve()
		if err := is(2, "docker.io/library/busybox:1.36")(); err != nil {
			t.Errorf("a daemon that starts changes nothing: %v", err)
		}
	})
}
