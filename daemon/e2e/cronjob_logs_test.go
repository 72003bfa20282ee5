package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// The logs of a CronJob, and one run of it now with other arguments.
func TestLogsOfACronJobAndARunWithArguments(t *testing.T) {
	t.Parallel()
	// Of Jobs that were created within a second the last is that of the last name.
	d := start(t, "--network", "none", "--listen", "127.0.0.1:0")
	d.apply(`
apiVersion: batch/v1
kind: CronJob
metadata: {name: backup}
spec:
  schedule: "0 0 1 1 *"
  jobTemplate: {spec: {backoffLimit: 0, template: {spec: {restartPolicy: Never, containers: [{name: c, image: "busybox:1.36", command: [sh, -c, 'echo "saved: $0 $*"'], args: [a, few]}]}}}}
`)
	says := func(want string, args ...string) {
		t.Helper()
		if out := d.jobctl(args...); out != want {
			t.Errorf("%v says %q, want %q", args, out, want)
		}
	}
	refused := func(want string, args ...string) {
		t.Helper()
		if out, err := d.try("jobctl", nil, args...); err == nil || !strings.Contains(out, want) {
			t.Errorf("%v: %v, %s", args, err, out)
		}
	}
	refused("has not started any yet", "logs", "cronjobs/backup")
	says("job.batch/first created\n", "create", "job", "first", "--from=cronjob/backup")
	d.complete("first")
	says("saved: a few\n", "logs", "cronjobs/backup")
	says("job.batch/tonight created\n", "create", "job", "tonight", "--from=cronjob/backup", "--", "all", "--of it")
	says("job.batch/tonight complete\n", "wait", "--for=finished", "cronjobs/backup")
	says("saved: all --of it\n", "logs", "cj/backup")
	both := "==> jobs/first <==\nsaved: a few\n\n==> jobs/tonight <==\nsaved: all --of it\n"
	says(both, "logs", "cronjobs/backup", "--runs", "2")
	says(both, "logs", "cronjobs/backup", "--runs=9")
	says("job.batch/tonight2 created\n", "create", "job", "tonight2", "--from=cronjob/backup", "--command", "--", "sh", "-c", "echo new; exit 4")
	if out, _, code := exitOf(t, d.jobctlWith("follow", "cronjobs/backup"), ""); code != 4 || out != "new\n" {
		t.Errorf("follow: %d, %q", code, out)
	}
	// As in a cluster: by another program's kubeconfig.
	kubeconfig := filepath.Join(d.root, "kubeconfig")
	says("new\n", "--kubeconfig", kubeconfig, "logs", "cronjobs/backup")
	says("job.batch/dry created (dry run)\n", "--kubeconfig", kubeconfig, "create", "job", "dry", "--from=cronjob/backup", "--dry-run=client", "--", "x")
	says(
		"dry x", "create", "job", "dry", "--from=cronjob/backup", "--dry-run=server", "-o",
		"jsonpath={.metadata.name} {.spec.template.spec.containers[0].args[0]}", "--", "x",
	)
	refused("--runs is for CronJobs", "logs", "jobs/first", "--runs", "2")
	refused("--runs must be 1 or more", "logs", "cronjobs/backup", "--runs", "0")
	refused("--command needs --from", "create", "job", "x", "--image", "busybox:1.36", "--command", "--", "true")
	refused(`cronjobs.batch "nosuch" not found`, "create", "job", "x", "--from=cronjob/nosuch", "--", "a")
	says("job.batch/plain created\n", "create", "job", "plain", "--image", "busybox:1.36", "--", "echo", "as ever")
	d.complete("plain")
	says("as ever\n", "logs", "jobs/plain")
}
