package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// A JobSet is told of as a whole: by one notice, whatever its Jobs do, and it is paused as a whole. What is played of it before is what
// it then does.
func TestAJobSetAsAWhole(t *testing.T) {
	t.Parallel()
	hook := startHook(t)
	d := start(t, "--config", receivers(t, fmt.Sprintf("  ops: {webhook: {url: %q}}\n", hook.URL)))
	const manifest = `
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: steps, annotations: {jobd.dev/notify: ops, jobd.dev/backoff-base: 1s}}
spec:
  failurePolicy: {maxRestarts: 1}
  network: {enableDNSHostnames: false}
  replicatedJobs:
  - name: work
    replicas: 2
    template:
      spec:
        backoffLimit: 0
        template:
          spec:
            restartPolicy: Never
            terminationGracePeriodSeconds: 1
            containers: [{name: c, image: "busybox:1.36", command: [sh, -c, "sleep 1; exit 3"]}]
`
	played, err := d.try("jobctl", []byte(manifest), "simulate", "-f", "-", "--pod", "*: exit=3")
	if err != nil || !strings.Contains(played, "The JobSet steps is Failed after 2s (ReachedMaxRestarts). Attempts: 2, Jobs created: 4, pods: 4.") {
		t.Errorf("played: %v\n%s", err, played)
	}
	said := d.applyWarned(manifest)
	if want := "jobd.dev/backoff-base]: has no effect: it belongs in spec.replicatedJobs[0].template.metadata.annotations"; !strings.Contains(said, want) {
		t.Errorf("the warning of an annotation that is not a JobSet's: %s", said)
	}
	told := func(kind string, n int) {
		t.Helper()
		d.eventually("it is told that it has "+kind, func() error {
			all := hook.of("steps")
			if len(all) != n || all[n-1].Type != "dev.jobd.notice."+kind || !strings.Contains(all[n-1].Data.Said, "jobctl why jobsets/steps") {
				return fmt.Errorf("it was told %+v", all)
			}
			return nil
		})
	}
	told("failed", 1)
	if said := hook.of("steps")[0].Data.Said; !strings.Contains(said, "JobSet default/steps has failed: ReachedMaxRestarts") ||
		!strings.Contains(said, "exit code 3") {
		t.Errorf("it was told %s", said)
	}
	js, err := d.jobSet("steps")
	if err != nil || js.Status.Restarts != 1 || js.Status.TerminalState != "Failed" {
		t.Errorf("%v: %+v", err, js.Status)
	}
	d.jobctl("delete", "jobset", "steps", "--cascade=foreground")

	done := strings.NewReplacer("exit 3", "exit 0", "sleep 1;", "sleep 20;").Replace(manifest)
	d.apply(done)
	d.eventually("both run", func() error {
		if js, err := d.jobSet("steps"); err != nil || len(js.Status.ReplicatedJobsStatus) == 0 || js.Status.ReplicatedJobsStatus[0].Ready != 2 {
			return fmt.Errorf("%w: %+v", err, js.Status)
		}
		return nil
	})
	if out := d.jobctl("pause", "jobsets/steps"); out != "jobset.jobset.x-k8s.io/steps paused\n" {
		t.Errorf("it says %s", out)
	}
	if out, err := d.try("jobctl", nil, "continue", "jobs/steps-work-0"); err == nil || !strings.Contains(out, "jobctl continue jobsets/steps") {
		t.Errorf("one of its Jobs is continued: %s", out)
	}
	d.kill()
	d.serve()
	d.eventually("its Jobs are frozen", func() error {
		out := d.jobctl("get", "jobs", "-o", `jsonpath={range .items[*]}{.status.conditions[?(@.type=="jobd.dev/Paused")].reason} {end}`)
		if out != "JobPaused JobPaused " {
			return fmt.Errorf("they are %s", out)
		}
		return nil
	})
	if out := d.jobctl("why", "jobsets/steps"); !strings.Contains(out, "jobsets/steps: is paused.") || !strings.Contains(out, "jobctl continue jobsets/steps") {
		t.Errorf("why says %s", out)
	}
	if out := d.jobctl("pause", "--all"); out != "jobset.jobset.x-k8s.io/steps is paused already\n" {
		t.Errorf("it says %s", out)
	}
	if out := d.jobctl("continue", "--all"); out != "jobset.jobset.x-k8s.io/steps continued\n" {
		t.Errorf("it says %s", out)
	}
	told("recovered", 2)
	for _, name := range []string{"steps-work-0", "steps-work-1"} {
		if all := hook.of(name); len(all) > 0 {
			t.Errorf("of %s it was told %+v", name, all)
		}
	}
}
