package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/jobd/jobd/api/batch"
)

// A Job that was told to start after another starts once that has completed, over a failure, another attempt and kill -9.
func TestAfterAnotherJob(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none")
	dir := t.TempDir()
	marker := filepath.Join(dir, "prepared")
	held := func(name, after, command string) string {
		j := failing(name, command)
		j.metadata, j.spec = "annotations: {jobd.dev/after: \""+after+"\"}", "suspend: true, backoffLimit: 0"
		return j.String()
	}
	// In the order in which "apply -f DIRECTORY" reads them: what waits comes first.
	prep := failing("prep", "sleep 1; test -e /data/prepared")
	prep.container = "volumeMounts: [{name: d, mountPath: /data}]"
	prep.pod = "volumes: [{name: d, hostPath: {path: " + dir + "}}]"
	for file, manifest := range map[string]string{"a.yaml": held("eval", "train", "true"), "b.yaml": held("train", "prep", "true"), "c.yaml": prep.String()} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(manifest), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := d.try("jobctl", nil, "apply", "-f", dir)
	if err != nil || !strings.Contains(out, `there is no Job "prep" yet`) {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err = d.try("jobctl", nil, "submit", "--name", "prep2", "--after", "prep2", "--image", "busybox:1.36")
	if err == nil || !strings.Contains(out, "prep2 waits for prep2") {
		t.Errorf("%v\n%s", err, out)
	}
	if out := d.jobctl("get", "jobs"); !strings.Contains(out, "After:train") || !strings.Contains(out, "After:prep") {
		t.Errorf("%s", out)
	}
	d.failed("prep", batchv1.JobReasonBackoffLimitExceeded)
	const failed = "waits: Job prep has to complete first, but has failed"
	if out := d.jobctl("why", "jobs/train"); !strings.Contains(out, failed) || !strings.Contains(out, "jobctl retry jobs/prep") {
		t.Errorf("%s", out)
	}
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.jobctl("retry", "jobs/prep")
	d.kill()
	time.Sleep(2 * time.Second) // prep ends while no daemon is there
	d.serve()
	d.eventually("train goes on", func() error {
		if j := d.jobctl("get", "jobs", "train", "-o", "jsonpath={.spec.suspend}"); j != "false" {
			return errors.New(j)
		}
		return nil
	})
	if out := d.jobctl("apply", "-f", dir); !strings.Contains(out, "stays false") {
		t.Errorf("%s", out)
	}
	train, eval := d.complete("train"), d.complete("eval")
	if train.Status.StartTime.Before(d.complete("prep").Status.CompletionTime) || eval.Status.StartTime.Before(train.Status.CompletionTime) {
		t.Errorf("they did not start one after the other: %v %v", train.Status, eval.Status)
	}
	if n := len(d.pods("train")); n != 1 || train.Annotations[batch.ResumedAnnotation] == "" {
		t.Errorf("%d pods, %v", n, train.Annotations)
	}
	if out := d.jobctl("events", "--for", "jobs/train"); strings.Count(out, "NeedsMet") != 1 || !strings.Contains(out, "prep has completed (jobd.dev/after)") {
		t.Errorf("%s", out)
	}
	// One that is gone is in the history.
	d.jobctl("delete", "jobs/prep")
	out, err = d.try("jobctl", nil, "submit", "--name", "late", "--after", "prep", "--image", "busybox:1.36", "--pull", "never", "--", "true")
	if err != nil || !strings.Contains(out, "prep ended at") {
		t.Errorf("%v\n%s", err, out)
	}
}
