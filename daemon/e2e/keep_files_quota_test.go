package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestQuotaOfFilesThatAreKept: under a quota, what ended pods keep is what they have requested, and it counts until it goes.
func TestQuotaOfFilesThatAreKept(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none")
	d.apply(`
apiVersion: v1
kind: ResourceQuota
metadata: {name: files}
spec: {hard: {requests.ephemeral-storage: 50Mi}}
`)
	used := func(want string) {
		t.Helper()
		d.eventually("the quota counts "+want, func() error {
			q, err := d.CoreV1().ResourceQuotas("default").Get(t.Context(), "files", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if got := q.Status.Used[corev1.ResourceRequestsEphemeralStorage]; got.String() != want {
				return fmt.Errorf("used are %s", got.String())
			}
			return nil
		})
	}
	keeping := func(name, script, request string) {
		d.apply(jobManifest{
			name: name, spec: "backoffLimit: 0", podMetadata: "annotations: {jobd.dev/keep-files: 168h}", pod: "volumes: [{name: e, emptyDir: {}}]",
			container: "resources: {requests: {ephemeral-storage: " + request + "}}, volumeMounts: [{name: e, mountPath: /e}]",
			program:   []string{"sh", "-c", script},
		}.String())
		d.complete(name)
	}
	gone := func(job string) {
		t.Helper()
		d.eventually("no more is kept than was requested", func() error {
			pod := d.pods(job)[0].Name
			out, err := d.try("jobctl", nil, "cp", pod+":/f", filepath.Join(t.TempDir(), "f"))
			if err == nil || !strings.Contains(out, "are gone") {
				return fmt.Errorf("it keeps them: %v, %s", err, out)
			}
			if said := d.jobctl(
				"get", "events", "--field-selector", "reason=FilesNotKept,involvedObject.name="+pod,
			); !strings.Contains(said, "of ephemeral-storage") {
				return fmt.Errorf("nobody was told: %s", said)
			}
			return nil
		})
	}
	large := func(file string) string { return "dd if=/dev/zero of=" + file + " bs=1M count=40 2>/dev/null" }
	keeping("root", large("/f"), "1Mi")
	gone("root")
	keeping("volume", large("/e/f"), "1Mi")
	gone("volume")
	used("0")

	keeping("fits", "echo 42 > /f", "30Mi")
	used("30Mi")
	pod := d.pods("fits")[0].Name
	d.jobctl("cp", pod+":/f", filepath.Join(t.TempDir(), "f"))
	d.kill()
	d.serve()
	used("30Mi")
	if out, err := d.try("jobctl", nil, "submit", "--image", "busybox:1.36", "--name", "more", "--detach", "--", "true"); err != nil {
		t.Error(out)
	}
	d.complete("more") // it requests none
	d.apply(jobManifest{
		name: "waits", spec: "backoffLimit: 0", container: "resources: {requests: {ephemeral-storage: 30Mi}}", program: []string{"true"},
	}.String())
	d.eventually("another pod is refused", func() error {
		if said := d.jobctl("get", "events"); !strings.Contains(
			said, "exceeded quota: files, requested: requests.ephemeral-storage=30Mi, used: requests.ephemeral-storage=30Mi",
		) {
			return fmt.Errorf("%s", said)
		}
		return nil
	})
	d.jobctl("delete", "pod", pod)
	d.complete("waits")
	used("0")
}
