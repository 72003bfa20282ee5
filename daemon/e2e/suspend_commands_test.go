package e2e

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
)

// Stop Jobs that wait or run, hold them, and let them go on.
func TestSuspendAndResumeCommands(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none", "--listen", "127.0.0.1:0")
	d.apply(sleeper("one", 1, 600, ""))
	d.apply(jobManifest{name: "two", metadata: "labels: {team: a}"}.String())
	d.apply(jobOf("over", "true"))
	d.apply(`
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, labels: {team: a}}
spec:
  schedule: "0 0 1 1 *"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: "busybox:1.36"}]}}}}
`)
	d.complete("over")
	d.running("one", 1)
	d.running("two", 1)
	held := func(name string, want bool) {
		t.Helper()
		d.until(name, fmt.Sprintf("suspended: %t", want), func(j *batchv1.Job) bool {
			return *j.Spec.Suspend == want && (condition(j, batchv1.JobSuspended) != nil) == want && (j.Status.Active == 0) == want
		})
	}
	says := func(want string, args ...string) {
		t.Helper()
		if out := d.jobctl(args...); out != want {
			t.Errorf("%v says %q, want %q", args, out, want)
		}
	}
	says("job.batch/one suspended\n", "suspend", "one")
	held("one", true)
	held("two", false)
	says("job.batch/one is suspended already\n", "suspend", "jobs/one")
	if out := d.jobctl("why", "jobs/one"); !strings.Contains(out, "jobctl-suspend has set its spec.suspend") {
		t.Errorf("why does not say who suspended it: %s", out)
	}
	says("job.batch/one is suspended already\njob.batch/two suspended\n", "suspend", "--all")
	held("two", true)
	says("job.batch/two resumed\n", "resume", "-l", "team=a")
	held("two", false)
	says("job.batch/two suspended\ncronjob.batch/nightly suspended\n", "suspend", "jobs,cronjobs", "-l", "team=a")
	says("cronjob.batch/nightly resumed\n", "resume", "cronjobs/nightly")
	says("No resources found\n", "suspend", "--all", "-n", "kube-public")
	for want, args := range map[string][]string{
		"has finished (Complete)":       {"suspend", "jobs/over"},
		"name the Jobs or CronJobs":     {"suspend"},
		`jobs.batch "nosuch" not found`: {"resume", "jobs/nosuch"},
		"has no spec.suspend":           {"suspend", "namespaces/default"},
	} {
		if out, err := d.try("jobctl", nil, args...); err == nil || !strings.Contains(out, want) {
			t.Errorf("%v: %v, %s", args, err, out)
		}
	}
	// Another server, as a cluster would be: the same command with --kubeconfig.
	says("job.batch/one resumed\n", "--kubeconfig", d.root+"/kubeconfig", "resume", "jobs/one")
	held("one", false)
}
