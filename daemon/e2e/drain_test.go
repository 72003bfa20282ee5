package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestDrain(t *testing.T) {
	t.Parallel()
	needKubectl(t)
	d := start(t, "--listen", freePort(t), "--network", "none", "--pod-backoff-base", "1s")
	self := strings.TrimSpace(d.kubectl("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"))
	d.apply(
		sleeper(
			"job", 1, 600, `podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}`,
		) + "---" + asking("bare", "", "cpu: 10m"),
	)
	d.running("job", 1)
	d.podUntil("bare", "runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	if out, err := d.tryKubectl("drain", self, patiently); err == nil ||
		!strings.Contains(out, "cannot delete Pods that declare no controller (use --force to override): default/bare") {
		t.Errorf("drain without --force: %v\n%s", err, out)
	}
	// A budget keeps the Job's pod, until it is removed.
	d.kubectl("create", "poddisruptionbudget", "keep", "--selector=job-name=job", "--min-available=1")
	d.eventually("the budget counts the pod", func() error {
		if got := d.kubectl("get", "pdb", "keep", "-o", "jsonpath={.status.currentHealthy}"); got != "1" {
			return fmt.Errorf("%s healthy pods", got)
		}
		return nil
	})
	if out, err := d.tryKubectl("drain", self, "--force", "--timeout=1s"); err == nil ||
		!strings.Contains(out, "Cannot evict pod as it would violate the pod's disruption budget.") {
		t.Errorf("drain against a budget: %v\n%s", err, out)
	}
	d.kubectl("delete", "pdb", "keep")
	if got := d.kubectl("get", "nodes"); !strings.Contains(got, "Ready,SchedulingDisabled") {
		t.Errorf("get nodes:\n%s", got)
	}
	if got := d.kubectl("drain", self, "--force", patiently); !strings.Contains(got, "node/"+self+" drained") {
		t.Errorf("drain:\n%s", got)
	}
	var waiting string
	d.eventually("the Job's next pod waits", func() error {
		for _, p := range d.pods("job") {
			if p.Status.Phase == corev1.PodPending {
				waiting = p.Name
			}
		}
		if waiting == "" {
			return errors.New("not yet")
		}
		return nil
	})
	d.podUntil(waiting, "says why it waits", func(p *corev1.Pod) bool {
		return p.Spec.NodeName == "" && len(p.Status.Conditions) == 1 &&
			p.Status.Conditions[0].Message == "0/1 nodes are available: 1 node(s) were unschedulable. preemption: 0/1 nodes are "+
				"available: 1 Preemption is not helpful for scheduling."
	})
	if got := d.kubectl("describe", "node", self); !strings.Contains(got, "node.kubernetes.io/unschedulable:NoSchedule") ||
		!strings.Contains(got, "Unschedulable:      true") {
		t.Errorf("describe node:\n%s", got)
	}
	d.kubectl("uncordon", self)
	d.running("job", 1)
	if got := d.kubectl("describe", "node", self); strings.Contains(got, "node.kubernetes.io/unschedulable") {
		t.Errorf("describe node, uncordoned:\n%s", got)
	}
}

func TestTaints(t *testing.T) {
	t.Parallel()
	needKubectl(t)
	d := start(t, "--listen", freePort(t), "--network", "none")
	const tolerant = "tolerations: [{key: upkeep, operator: Exists}]"
	leave := map[string]string{
		"leaves":      "",
		"other-value": "tolerations: [{key: upkeep, operator: Equal, value: later, effect: NoExecute}]",
		"other-taint": "tolerations: [{key: upkeep, operator: Exists, effect: NoSchedule}]",
		"a-moment":    "tolerations: [{key: upkeep, value: now, effect: NoExecute, tolerationSeconds: 1}]",
	}
	d.apply(asking("stays", tolerant, "cpu: 10m") +
		asking("same-value", "tolerations: [{key: upkeep, operator: Equal, value: now, effect: NoExecute}]", "cpu: 10m"))
	for name, tolerations := range leave {
		d.apply(asking(name, tolerations, "cpu: 10m"))
	}
	for name := range leave {
		d.podUntil(name, "runs", runs)
	}
	d.podUntil("stays", "runs", runs)
	d.podUntil("same-value", "runs", runs)
	if got := d.kubectl("taint", "nodes", "--all", "upkeep=now:NoExecute"); !strings.Contains(got, "tainted") {
		t.Errorf("taint:\n%s", got)
	}
	for name := range leave {
		d.kubectl("wait", "pod", name, "--for=delete", patiently)
	}
	if got := d.kubectl("get", "events", "--field-selector", "involvedObject.name=leaves"); !strings.Contains(got, "TaintManagerEviction") {
		t.Errorf("events:\n%s", got)
	}
	d.podUntil("stays", "runs still", runs)
	d.podUntil("same-value", "runs still", runs)
	d.apply(asking("late", "", "cpu: 10m") + asking("welcome", tolerant, "cpu: 10m"))
	d.podUntil("welcome", "runs", runs)
	d.podUntil("late", "says why it waits", func(p *corev1.Pod) bool {
		return len(p.Status.Conditions) == 1 && strings.HasPrefix(
			p.Status.Conditions[0].Message, "0/1 nodes are available: 1 node(s) had untolerated taint(s). ",
		)
	})
	if out, err := d.tryKubectl("taint", "nodes", "--all", "upkeep=now:Perhaps"); err == nil {
		t.Errorf("an effect that there is not:\n%s", out)
	}
	d.kubectl("taint", "nodes", "--all", "upkeep-")
	d.podUntil("late", "runs", runs)
}
