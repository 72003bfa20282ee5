package e2e

import (
	"strings"
	"testing"
)

func TestCronJobStartsJobs(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.apply(`
apiVersion: batch/v1
kind: CronJob
metadata: {name: hello}
spec:
  schedule: "@every 2s"
  concurrencyPolicy: Forbid
  successfulJobsHistoryLimit: 1000 # the first one is looked at, however late
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: OnFailure
          containers:
          - name: hello
            image: busybox:1.36
            command: ["echo", "hello from the schedule"]
`)
	if _, err := d.try("jobctl", nil, "wait", "--for=jsonpath={.status.lastSuccessfulTime}", "cronjob/hello", patiently); err != nil {
		t.Fatalf("%v\n%s", err, d.jobctl("get", "cronjobs,jobs,pods,events"))
	}
	name := strings.Fields(d.jobctl("get", "jobs", "-o", "name"))[0]
	if !strings.HasPrefix(name, "job.batch/hello-") {
		t.Errorf("its Job is %s", name)
	}
	if got := d.jobctl("logs", name); got != "hello from the schedule\n" {
		t.Errorf("it said %q", got)
	}
	d.jobctl("patch", "cronjob/hello", "-p", `{"spec":{"suspend":true}}`)

	d.jobctl("create", "job", "by-hand", "--from=cronjob/hello")
	d.complete("by-hand")
	if got := d.jobctl("describe", "cronjob", "hello"); !strings.Contains(got, "SuccessfulCreate") || !strings.Contains(got, "SawCompletedJob") {
		t.Errorf("describe does not show what happened:\n%s", got)
	}
	metrics := d.jobctl("get", "--raw", "/metrics")
	for _, want := range []string{
		`job_controller_jobs_finished_total{completion_mode="NonIndexed",reason="CompletionsReached",result="succeeded"}`,
		"cronjob_controller_job_creation_skew_duration_seconds_count", "jobd_store_bytes",
	} {
		if !strings.Contains(metrics, "\n"+want) {
			t.Errorf("metrics lack %s", want)
		}
	}

	d.jobctl("delete", "cronjob", "hello")
	d.jobctl("wait", "--for=delete", "job", "--all", patiently)
	d.jobctl("wait", "--for=delete", "pod", "--all", patiently)
	if got := d.jobctl("get", "jobs,pods", "-o", "name"); got != "" {
		t.Errorf("left are %s", got)
	}
}
