package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file with a Deployment or a CertificateSigningRequest beside the Job.
func TestOtherKindsBesideTheJob(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none")
	file := filepath.Join(t.TempDir(), "app.yaml")
	if err := os.WriteFile(file, []byte(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}
---
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: reader}
---
`+strings.TrimSpace(jobOf("migrate", "true"))+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	says := func(out string, words ...string) {
		t.Helper()
		for _, want := range words {
			if !strings.Contains(out, want) {
				t.Errorf("it does not say %q: %s", want, out)
			}
		}
		if strings.Contains(out, "CRD") {
			t.Errorf("it speaks of CRDs: %s", out)
		}
	}
	both := []string{
		`Deployment "web": jobd runs Jobs and does not have the kind Deployment`,
		`CertificateSigningRequest "reader": jobd runs Jobs and does not have the kind CertificateSigningRequest`,
	}
	out, err := d.try("jobctl", nil, "apply", "-f", file)
	if err == nil {
		t.Error("apply exits with 0")
	}
	says(out, append(both, "job.batch/migrate created")...)
	d.complete("migrate")
	says(d.jobctl("apply", "-f", file, "--skip-unknown"), append(both, "job.batch/migrate unchanged", "skipped: ")...)
	says(d.jobctl("delete", "-f", file, "--skip-unknown"), append(both, `job.batch "migrate" deleted`)...)
	if out, err := d.try("jobctl", nil, "apply", "-f", file+".none", "--skip-unknown"); err == nil {
		t.Errorf("a file that is not there is skipped: %s", out)
	}
}
