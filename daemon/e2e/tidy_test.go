package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jobd/jobd/api/diskuse"
)

// Jobs go by a setting where they do not say it themselves, also over a kill, and what is on the disk is told with whose it is.
func TestTidy(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none", "--job-ttl", "25s", "--failed-job-ttl", "720h")
	job := func(name, script, more string) string {
		return fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: %s}
spec:
  backoffLimit: 0
%s  template:
    metadata: {annotations: {jobd.dev/keep-files: 1h}}
    spec:
      restartPolicy: Never
      volumes: [{name: d, emptyDir: {}}]
      containers:
      - {name: c, image: "busybox:1.36", command: [sh, -c, "%s"], volumeMounts: [{name: d, mountPath: /d}]}
---
`, name, more, script)
	}
	fills := "head -c 3000000 /dev/zero >/d/x; head -c 1000000 /dev/zero | tr '\\\\0' x"
	d.apply(job("done", "true", "") + job("fails", fills+"; exit 1", "") + job("own", "true", "  ttlSecondsAfterFinished: 3600\n"))
	for _, name := range []string{"done", "own"} {
		d.complete(name)
	}
	d.failed("fails", "BackoffLimitExceeded")
	says := func(command, words string) {
		t.Helper()
		d.eventually(command+" says it", func() error {
			out := strings.Join(strings.Fields(d.jobctl(strings.Fields(command)...)), " ")
			if !strings.Contains(out, words) {
				return fmt.Errorf("%s", out)
			}
			return nil
		})
	}
	says("why jobs/fails", "720h0m0s after its end, since it has no ttlSecondsAfterFinished of its own (jobd serve --failed-job-ttl)")
	says("describe jobs/fails", "Will be removed at")
	if out := d.jobctl("get", "jobs/fails", "-o", "yaml"); strings.Contains(out, "ttlSecondsAfterFinished") {
		t.Errorf("the spec was written:\n%s", out)
	}

	says("df", "kept files")
	var report diskuse.Report
	if err := json.Unmarshal([]byte(d.jobctl("df", "-o", "json")), &report); err != nil {
		t.Fatal(err)
	}
	least := map[string]int64{"images": 1 << 20, "logs": 1_000_000, "kept files": 3_000_000, "database": 1 << 16, "history": 100}
	owners := map[string]string{"images": "docker.io/library/busybox:1.36", "logs": "jobs/default/fails", "kept files": "jobs/default/fails"}
	for _, use := range report.Uses {
		if use.Bytes < least[use.Kind] || use.Bound == "" {
			t.Errorf("%+v", use)
		}
		if owner := owners[use.Kind]; owner != "" && (len(use.Owners) == 0 || use.Owners[0].Name != owner) {
			t.Errorf("%s belongs to %+v, want %s", use.Kind, use.Owners, owner)
		}
		delete(least, use.Kind)
	}
	if len(least) > 0 {
		t.Errorf("nothing is said of %v", least)
	}

	d.kill()
	d.serve()
	d.eventually("the Job is gone", func() error {
		if out := d.jobctl("get", "jobs", "-o", "name"); out != "job.batch/fails\njob.batch/own\n" {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
}
