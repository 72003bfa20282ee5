package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/jobd/jobd/api/history"
)

// Who ran what, when, and what did it cost; also of Jobs that are gone, and of a daemon that was killed.
func TestWhoRanWhat(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none")
	admin := []string{"--as", "alice", "--as-group", "jobd:admins"}
	create := func(manifest string) {
		t.Helper()
		if out, err := d.try("jobctl", []byte(manifest), append(admin, "create", "-f", "-")...); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	// It fails once, and has something in memory the second time, while the daemon is down.
	create(`
apiVersion: batch/v1
kind: Job
metadata: {name: work, labels: {app: report}}
spec:
  ttlSecondsAfterFinished: 0
  template:
    spec:
      restartPolicy: OnFailure
      volumes: [{name: d, emptyDir: {}}]
      containers:
      - name: c
        image: busybox:1.36
        volumeMounts: [{name: d, mountPath: /d}]
        command: [sh, -c, 'i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; if [ ! -e /d/x ]; then echo > /d/x; exit 3; fi; touch /d/go; while [ ! -e /d/go2 ]; do sleep 0.1; done; x=$(head -c 20000000 /dev/zero | tr "\0" x); true']
`)
	d.eventually("the second attempt", func() error {
		_, err := d.try("jobctl", nil, "exec", "jobs/work", "--", "test", "-e", "/d/go")
		return err
	})
	// Dashboards for clusters find what they look for.
	parser := expfmt.NewTextParser(model.LegacyValidation)
	scraped, err := parser.TextToMetricFamilies(strings.NewReader(d.jobctl("get", "--raw", "/metrics")))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kube_job_status_active", "kube_pod_status_phase", "kube_pod_container_status_restarts_total",
		"container_cpu_usage_seconds_total", "container_memory_working_set_bytes"} {
		if scraped[name] == nil {
			t.Errorf("there is no metric %s", name)
		}
	}
	d.jobctl("exec", "jobs/work", "--", "touch", "/d/go2")
	d.kill()
	d.serve()
	d.eventually("the Job is gone", func() error {
		if out := d.jobctl("get", "jobs", "-o", "name"); out != "" {
			return fmt.Errorf("%s is there", out)
		}
		return nil
	})
	list := func(args ...string) (l history.List) {
		t.Helper()
		if err := json.Unmarshal([]byte(d.jobctl(append([]string{"history", "-o", "json"}, args...)...)), &l); err != nil {
			t.Fatal(err)
		}
		return l
	}
	if l := list("-l", "app=report", "--since", "7d", "--user", "alice", "--pods"); len(l.Items) != 1 || l.Kind != history.Kind {
		t.Fatalf("the history says %+v", l)
	} else {
		j := l.Items[0]
		if j.Name != "work" || j.User != "alice" || j.Result != history.Complete || j.Retries != 1 || j.CPUSeconds <= 0 || j.Started == nil ||
			len(j.Pods) != 1 || len(j.Pods[0].Containers) != 1 || j.Pods[0].Containers[0].Restarts != 1 {
			t.Errorf("the history says %+v", j)
		}
		if j.PeakMemory != 0 && j.PeakMemory < 20_000_000 { // cgroup v2 has no peak before Linux 5.19
			t.Errorf("a peak of %d bytes", j.PeakMemory)
		}
	}
	if out := d.jobctl("history", "jobs/work"); !strings.HasPrefix(out, "NAME   USER    STARTED") ||
		!strings.Contains(out, "work   alice") || !strings.Contains(out, "Complete   0 ") {
		t.Errorf("the table is\n%s", out)
	}
	if out := d.jobctl("history", "work", "--pods", "-A", "-o", "wide"); !strings.Contains(out, "work-") || !strings.Contains(out, "Succeeded") {
		t.Errorf("the table of pods is\n%s", out)
	}

	// Jobs of a CronJob are those of its creator; one that was deleted is there too.
	create(`
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 0 1 1 *"
  jobTemplate: {spec: {backoffLimit: 0, template: {spec: {restartPolicy: Never, containers: [{name: c, image: "busybox:1.36", command: [sh, -c, exit 4]}]}}}}
`)
	d.jobctl("create", "job", "now", "--from=cronjob/nightly")
	d.failed("now", "BackoffLimitExceeded")
	d.apply(sleeper("endless", 1, 600, ""))
	d.running("endless", 1)
	d.jobctl("delete", "jobs", "--all", "--grace-period=1")
	d.eventually("the deleted Job is in the history", func() error {
		l := list("jobs/endless")
		if len(l.Items) != 1 || l.Items[0].Result != history.Deleted || l.Items[0].Stopped != 1 || l.Items[0].User == "" {
			return fmt.Errorf("%+v", l.Items)
		}
		return nil
	})
	if l := list("cronjobs/nightly", "-A"); len(l.Items) != 1 || l.Items[0].CronJob != "nightly" || l.Items[0].Retries != 0 ||
		len(l.Items[0].ExitCodes) != 1 || l.Items[0].ExitCodes[0] != (history.ExitCode{Code: 4, Count: 1}) {
		t.Errorf("the runs of the CronJob are %+v", l.Items)
	}
	if l := list("--limit", "1"); len(l.Items) != 1 || l.Items[0].Name != "endless" {
		t.Errorf("the last Job is %+v", l.Items)
	}

	// Everybody sees what he may list.
	viewer := []string{"--as", "bob", "--as-group", "jobd:role:read:default", "history"}
	if out, err := d.try("jobctl", nil, viewer...); err != nil || !strings.Contains(out, "alice") {
		t.Errorf("a viewer of the namespace sees %v: %s", err, out)
	}
	for want, args := range map[string][]string{
		"cannot list":             append(viewer, "-A"),
		"cannot list resource":    append(viewer, "-n", "kube-system"),
		"is neither a duration":   {"history", "--since", "soon"},
		"nodes are not jobs":      {"history", "nodes/x"},
		"--limit must not":        {"history", "--limit", "-1"},
		"unknown output format":   {"history", "-o", "name"},
		"unable to parse require": {"history", "-l", "a b"},
		"there is no parameter":   {"get", "--raw", history.Path("default") + "?nam=x"},
		"metadata.continue":       {"get", "--raw", history.Path("") + "?continue=x-y"},
	} {
		if out, err := d.try("jobctl", nil, args...); err == nil || !strings.Contains(out, want) {
			t.Errorf("jobctl %v: %v, %s; want %s", args, err, out, want)
		}
	}
}
