package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/batch"
)

// A CronJob that makes up for all the times that it has missed, one after another, through kill -9: each once and in order, and
// its containers know for which time they run.
func TestMissedTimesOfACronJob(t *testing.T) {
	t.Parallel()
	d, dir := start(t), t.TempDir()
	d.apply(fmt.Sprintf(`
apiVersion: batch/v1
kind: CronJob
metadata:
  name: nightly
  annotations: {jobd.dev/missed: all, jobd.dev/missed-max: "4", jobd.dev/schedules: "0 */2 * * *"}
spec:
  schedule: "0 * * * *"
  timeZone: UTC
  suspend: true
  concurrencyPolicy: Forbid
  successfulJobsHistoryLimit: 100
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers:
          - name: c
            image: busybox:1.36
            command: [sh, -c, 'echo $SCHEDULED_FOR >>/out/runs; sleep 1; echo end >>/out/runs']
            env:
            - name: SCHEDULED_FOR
              valueFrom: {fieldRef: {fieldPath: "metadata.annotations['batch.kubernetes.io/cronjob-scheduled-timestamp']"}}
            volumeMounts: [{name: out, mountPath: /out}]
          volumes: [{name: out, hostPath: {path: %s}}]
`, dir))
	if _, err := d.try("jobctl", nil, "annotate", "cronjob", "nightly", "--overwrite", "jobd.dev/missed=some"); err == nil {
		t.Error("a policy that does not exist is taken")
	}
	now := time.Now().UTC()
	d.jobctl("patch", "cronjob", "nightly", "--subresource=status", "--type=merge", "-p",
		fmt.Sprintf(`{"status":{"lastScheduleTime":"%s"}}`, now.Add(-10*time.Hour).Truncate(time.Hour).Format(time.RFC3339)))
	if out := d.jobctl("why", "cronjobs/nightly"); !strings.Contains(out, "each of 3 later times once it is resumed") {
		t.Errorf("why: %s", out)
	}
	d.jobctl("resume", "cronjobs/nightly")
	runs := func() []string {
		text, err := os.ReadFile(filepath.Join(dir, "runs"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Fields(string(text))
	}
	atLeast := func(n int) {
		t.Helper()
		d.eventually(fmt.Sprintf("%d lines", n), func() error {
			if all := runs(); len(all) < n {
				return fmt.Errorf("%q", all)
			}
			return nil
		})
	}
	for _, n := range []int{1, 4} {
		atLeast(n)
		d.kill()
		d.serve()
	}
	atLeast(8)
	var want []string
	for i := range 4 {
		want = append(want, now.Truncate(time.Hour).Add(time.Duration(i-3)*time.Hour).Format(time.RFC3339), "end")
	}
	d.eventually("the end of the last", func() error {
		if out := d.jobctl("get", "cronjobs", "nightly", "-o", "jsonpath={.status.active}"); out != "" {
			return fmt.Errorf("active: %s", out)
		}
		return nil
	})
	if got := runs(); time.Now().UTC().Hour() == now.Hour() && strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("ran for %q, want %q", got, want)
	}
	if out := d.jobctl("get", "cronjobs", "-o", "wide"); !strings.Contains(out, "NEXT START") {
		t.Errorf("%s", out)
	}
}

// A CronJob with jitter starts its run that much later than scheduled, under the name and for the time that it would have without.
func TestJitterOfACronJob(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none")
	const within = 20 * time.Second
	name, by := "", time.Duration(0)
	for i := 0; by < 5*time.Second || by > 15*time.Second; i++ { // long enough to be seen, and no longer
		name = fmt.Sprint("spread", i)
		cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, Annotations: map[string]string{batch.JitterAnnotation: within.String()},
		}}
		times, err := batch.CronJobTimesOf(cj)
		if err != nil {
			t.Fatal(err)
		}
		by = times.Offset
	}
	if at := time.Now(); time.Minute-time.Duration(at.Second())*time.Second < 10*time.Second { // the CronJob is there before the minute begins
		time.Sleep(11 * time.Second)
	}
	d.apply(fmt.Sprintf(`
apiVersion: batch/v1
kind: CronJob
metadata: {name: %s, annotations: {jobd.dev/jitter: %s}}
spec:
  schedule: "* * * * *"
  timeZone: UTC
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: "busybox:1.36", command: ["true"]}]}}}}
`, name, within))
	run := ""
	d.eventually("a run", func() error {
		run = d.jobctl("get", "jobs", "-o", "jsonpath={range .items[*]}{.metadata.name} {.metadata.creationTimestamp} "+
			"{.metadata.annotations.batch\\.kubernetes\\.io/cronjob-scheduled-timestamp} {end}")
		if len(strings.Fields(run)) < 3 {
			return fmt.Errorf("there is none: %q", run)
		}
		return nil
	})
	fields := strings.Fields(run)
	created, err := time.Parse(time.RFC3339, fields[1])
	if err != nil {
		t.Fatal(err)
	}
	scheduled, err := time.Parse(time.RFC3339, fields[2])
	if err != nil {
		t.Fatal(err)
	}
	// Nothing may start it sooner, and a busy machine only later.
	if late := created.Sub(scheduled); scheduled.Second() != 0 || late < by.Truncate(time.Second) || late > by+30*time.Second {
		t.Errorf("it was to start %s after %s, and did so after %s", by, scheduled, late)
	}
	if want := fmt.Sprint(name, "-", scheduled.Unix()/60); fields[0] != want {
		t.Errorf("it is called %s, want %s", fields[0], want)
	}
}
