package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A LimitRange gives containers what they leave out, which they then have, and refuses pods and claims beyond it.
func TestLimitRanges(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none")
	d.apply(`
apiVersion: v1
kind: LimitRange
metadata: {name: small}
spec:
  limits:
  - {type: Container, max: {memory: 64Mi}, defaultRequest: {cpu: 10m}}
  - {type: PersistentVolumeClaim, max: {storage: 1Gi}}
`)
	if out := d.jobctl("describe", "limits", "small"); !strings.Contains(strings.Join(strings.Fields(out), " "), "Container memory - 64Mi 64Mi 64Mi -") {
		t.Errorf("describe:\n%s", out)
	}
	const script = "cat /sys/fs/cgroup/memory.max 2>/dev/null || cat /sys/fs/cgroup/memory/memory.limit_in_bytes"
	d.apply(jobOf("plain", script))
	d.complete("plain")
	if out := d.jobctl("logs", "jobs/plain"); out != "67108864\n" {
		t.Errorf("the limit is %q", out)
	}
	if p := d.pods("plain")[0]; p.Annotations["kubernetes.io/limit-ranger"] == "" || p.Status.QOSClass != corev1.PodQOSBurstable {
		t.Errorf("%v, %s", p.Annotations, p.Status.QOSClass)
	}
	large := strings.Replace(onePod("large", "busybox:1.36", "true"), "image:", "resources: {limits: {memory: 1Gi}}, image:", 1)
	const words = `pods "large" is forbidden: maximum memory usage per Container is 64Mi, but limit is 1Gi`
	if out, err := d.try("jobctl", []byte(large), "apply", "-f", "-"); err == nil || !strings.Contains(out, words) {
		t.Errorf("a pod beyond it: %v, %s", err, out)
	}
	const claim = `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}}`
	if out, err := d.try("jobctl", []byte(claim), "apply", "-f", "-"); err == nil ||
		!strings.Contains(out, `persistentvolumeclaims "c" is forbidden: maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi`) {
		t.Errorf("a claim beyond it: %v, %s", err, out)
	}
}
