package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// All pods of a JobSet start together, in each attempt, over kill -9; what is played of it before is what it does.
func TestAGangOfAJobSet(t *testing.T) {
	t.Parallel()
	d := start(t, "--allocatable", "cpu=3", "--network", "none")
	d.apply(asking("blocker", "", "cpu: 1500m"))
	d.podUntil("blocker", "runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	group := func(name string, replicas int, more, command string) string {
		return fmt.Sprintf(`
  - name: %s
    replicas: %d%s
    template:
      spec:
        backoffLimit: 0
        template:
          spec:
            restartPolicy: Never
            terminationGracePeriodSeconds: 1
            containers:
            - name: c
              image: busybox:1.36
              command: [sh, -c, %q]
              resources: {requests: {cpu: "1"}}
              env: [{name: ATTEMPT, valueFrom: {fieldRef: {fieldPath: "metadata.labels['jobset.sigs.k8s.io/restart-attempt']"}}}]`,
			name, replicas, more, command)
	}
	manifest := `
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, annotations: {jobd.dev/gang: "true"}}
spec:
  failurePolicy: {maxRestarts: 1}
  network: {enableDNSHostnames: false}
  replicatedJobs:` + group("leader", 1, "", "sleep 2; [ $ATTEMPT = 1 ]") + group("workers", 2, "", "sleep 3") +
		group("after", 1, "\n    dependsOn: [{name: leader, status: Complete}]", "true") + "\n"
	played, err := d.try("jobctl", []byte(manifest), "simulate", "-f", "-", "--allocatable", "cpu=2", "--pod", "*: after=3s")
	if err != nil || !strings.Contains(played, "minCount (3) cannot be satisfied") ||
		!strings.Contains(played, "its Job train-leader-0 has not: pods wait for room for ever") {
		t.Errorf("played: %v\n%s", err, played)
	}
	said := d.applyWarned(manifest)
	if !strings.Contains(said, "the pods of leader, workers start together; those of after wait for other groups, and start one by one") {
		t.Errorf("it warns: %s", said)
	}
	waits := func() {
		t.Helper()
		d.eventually("why says what it waits for", func() error {
			out := d.jobctl("why", "jobsets/train")
			if !strings.Contains(out, "Its 3 pods of leader, workers start together or wait together (jobd.dev/gang).") ||
				!strings.Contains(out, "It waits for its gang: 3 pods have to start together, and there is room for 1.") {
				return fmt.Errorf("%s", out)
			}
			return nil
		})
	}
	waits()
	d.kill()
	d.serve()
	waits()
	for _, name := range []string{"train-leader-0", "train-workers-0", "train-workers-1"} {
		for _, p := range d.pods(name) {
			if p.Spec.NodeName != "" || *p.Spec.SchedulingGroup.PodGroupName != "train-gang-0" {
				t.Errorf("%s is on the node, which has no room for the others: %+v", p.Name, p.Spec.SchedulingGroup)
			}
		}
	}
	d.jobctl("delete", "pod", "blocker")
	d.eventually("it is complete", func() error {
		if js, err := d.jobSet("train"); err != nil || js.Status.TerminalState != "Completed" || js.Status.Restarts != 1 {
			return fmt.Errorf("%w: %+v", err, js.Status)
		}
		return nil
	})
	at := map[string]bool{}
	for _, name := range []string{"train-leader-0", "train-workers-0", "train-workers-1"} {
		for _, p := range d.pods(name) {
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodScheduled {
					at[c.LastTransitionTime.String()] = true
				}
			}
		}
	}
	if len(at) != 1 {
		t.Errorf("those of one attempt came onto the node at %v", at)
	}
	out := d.jobctl("get", "podgroups")
	if !strings.Contains(out, "train-gang-1") || strings.Contains(out, "train-gang-0") || !strings.Contains(out, "Gang(3)") {
		t.Errorf("%s", out)
	}
	d.jobctl("delete", "jobset", "train", "--cascade=foreground")
	if out := d.jobctl("get", "podgroups"); strings.Contains(out, "train") {
		t.Errorf("%s", out)
	}
}
