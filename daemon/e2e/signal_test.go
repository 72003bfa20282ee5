package e2e

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/core"
)

// A pod with jobd.dev/signal is told of its end before its Job's deadline, and before an eviction, exactly once over kill -9.
func TestASignalBeforeTheLimit(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none")
	manifest := func(name, spec, more string) string {
		return `{apiVersion: batch/v1, kind: Job, metadata: {name: ` + name + `}, spec: {backoffLimit: 0, ` + spec + `, template: {
			metadata: {annotations: {jobd.dev/signal: USR1@` + more + `}},
			spec: {restartPolicy: Never, terminationGracePeriodSeconds: 2, containers: [{name: c, image: docker.io/library/busybox:1.36, command: [sh, -c,
				"trap 'echo told' USR1; trap 'echo ends; exit 3' TERM; echo ready; while :; do sleep 0.1; done"]}]}}}}`
	}
	if out, err := d.try("jobctl", []byte(manifest("wrong", "completions: 1", "2")), "apply", "-f", "-"); err == nil ||
		!strings.Contains(out, "spec.template.annotations[jobd.dev/signal]") && !strings.Contains(out, "spec.template.metadata.annotations[jobd.dev/signal]") {
		t.Errorf("a wrong time: %v, %s", err, out)
	}
	logs := func(name string) string { return d.jobctl("logs", "jobs/"+name) }
	says := func(name, words string) {
		t.Helper()
		d.eventually(name+" says "+words, func() error {
			if out := logs(name); !strings.Contains(out, words) {
				return fmt.Errorf("it says %q", out)
			}
			return nil
		})
	}
	signaled := func(name string) *corev1.PodCondition {
		for _, p := range d.pods(name) {
			for i := range p.Status.Conditions {
				if c := &p.Status.Conditions[i]; c.Type == core.Signaled && c.Status == corev1.ConditionTrue {
					return c
				}
			}
		}
		return nil
	}

	d.apply(manifest("limited", "activeDeadlineSeconds: 12", "8s"))
	d.running("limited", 1)
	says("limited", "ready")
	d.kill() // it comes all the same
	d.serve()
	says("limited", "told")
	d.eventually("the condition says so", func() error {
		if signaled("limited") == nil {
			return fmt.Errorf("pods: %+v", d.pods("limited"))
		}
		return nil
	})
	for range 2 {
		d.kill()
		d.serve()
	}
	if out := d.jobctl("why", "jobs/limited"); !strings.Contains(strings.Join(strings.Fields(out), " "), "SIGUSR1 was sent: activeDeadlineSeconds of its Job") {
		t.Errorf("why says\n%s", out)
	}
	if out := d.jobctl("events", "--types", "Normal"); !strings.Contains(out, "Sent SIGUSR1") {
		t.Errorf("no event tells of it:\n%s", out)
	}
	says("limited", "ends")
	if out := logs("limited"); strings.Count(out, "told") != 1 {
		t.Errorf("it was told more than once:\n%s", out)
	}
	d.failed("limited", batchv1.JobReasonDeadlineExceeded)

	d.apply(manifest("evicted", "podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}", "6s"))
	d.running("evicted", 1)
	says("evicted", "ready")
	d.jobctl("taint", "nodes", "--all", "away=soon:NoExecute")
	says("evicted", "told")
	if out := logs("evicted"); strings.Contains(out, "ends") {
		t.Errorf("it was stopped together with its signal:\n%s", out)
	}
	d.kill()
	d.serve()
	says("evicted", "ends")
	if out := logs("evicted"); strings.Count(out, "told") != 1 {
		t.Errorf("it was told more than once:\n%s", out)
	}
}
