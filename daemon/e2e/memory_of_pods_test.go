package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// A pod whose containers have limits takes no more memory than these say: not by what its containers leave in volumes in memory
// when they end, nor by containers that are added for debugging, which have no limits of their own.
func TestMemoryOfAPodIsThatOfItsLimits(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, d *daemon) {
		d.apply(`
apiVersion: v1
kind: Pod
metadata: {name: leaves}
spec:
  restartPolicy: Never
  volumes: [{name: a, emptyDir: {medium: Memory}}, {name: b, emptyDir: {medium: Memory}}]
  initContainers:
  - {name: first, image: "busybox:1.36", command: [dd, if=/dev/zero, of=/a/x, bs=1M, count=40], resources: {limits: {memory: 64Mi}},
     volumeMounts: [{name: a, mountPath: /a}]}
  - {name: second, image: "busybox:1.36", command: [dd, if=/dev/zero, of=/b/x, bs=1M, count=40], resources: {limits: {memory: 64Mi}},
     volumeMounts: [{name: b, mountPath: /b}]}
  containers: [{name: c, image: "busybox:1.36", command: ["true"], resources: {limits: {memory: 64Mi}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: debugged}
spec:
  restartPolicy: Never
  containers: [{name: c, image: "busybox:1.36", command: [sleep, "1000"], resources: {limits: {memory: 64Mi}}}]
`)
		p := d.podUntil("leaves", "has ended", ended)
		if s := p.Status.InitContainerStatuses; s[0].State.Terminated.ExitCode != 0 || s[1].State.Terminated.Reason != "OOMKilled" {
			t.Errorf("80 MiB in the volumes of a pod that may have 64: %+v", s)
		}
		d.podUntil("debugged", "runs", runs)
		if err := retry.OnError(retry.DefaultRetry, func(error) bool { return true }, func() error {
			p, err := d.CoreV1().Pods("default").Get(t.Context(), "debugged", metav1.GetOptions{})
			if err != nil {
				return err
			}
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				Name: "added", Image: "busybox:1.36", Command: []string{"dd", "if=/dev/zero", "of=/dev/null", "bs=100M", "count=1"},
			}}}
			_, err = d.CoreV1().Pods("default").UpdateEphemeralContainers(t.Context(), p.Name, p, metav1.UpdateOptions{})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		p = d.podUntil("debugged", "has been debugged", func(p *corev1.Pod) bool {
			return len(p.Status.EphemeralContainerStatuses) == 1 && p.Status.EphemeralContainerStatuses[0].State.Terminated != nil
		})
		if end := p.Status.EphemeralContainerStatuses[0].State.Terminated; end.Reason != "OOMKilled" {
			t.Errorf("100 MiB of a pod that may have 64: %+v", end)
		}
	})
}
