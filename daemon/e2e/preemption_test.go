package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestAHigherPriorityTakesTheRoomOfALowerOne(t *testing.T) {
	t.Parallel()
	needKubectl(t)
	d := start(t, "--listen", freePort(t), "--allocatable", "cpu=2", "--network", "none", "--pod-backoff-base", "1s")
	d.kubectl("create", "priorityclass", "urgent", "--value=100")
	d.kubectl("create", "priorityclass", "patient", "--value=100", "--preemption-policy=Never")
	d.apply(each(sleeper("low", 1, 600, `podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}`), "cpu: 2"))
	victim := d.running("low", 1)[0].Name
	d.apply(asking("patient", "priorityClassName: patient", "cpu: 1"))
	d.podUntil("patient", "waits", func(p *corev1.Pod) bool {
		return len(p.Status.Conditions) == 1 && strings.HasSuffix(
			p.Status.Conditions[0].Message, "1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never.",
		)
	})
	d.kubectl("delete", "pod", "patient")

	d.apply(asking("urgent", "priorityClassName: urgent", "cpu: 1"))
	d.podUntil("urgent", "runs", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning && p.Status.NominatedNodeName == ""
	})
	if got := d.kubectl("get", "events", "--field-selector", "involvedObject.name="+victim); !strings.Contains(got, "Preempted by pod ") {
		t.Errorf("events of the victim:\n%s", got)
	}
	if got := d.kubectl(
		"get", "events", "--field-selector", "involvedObject.name=urgent",
	); !strings.Contains(got, "0/1 nodes are available: 1 Insufficient cpu.") {
		t.Errorf("events of the one it made way for:\n%s", got)
	}
	d.kubectl("delete", "pod", "urgent")
	d.running("low", 1)
	if got := d.kubectl("get", "job", "low", "-o", "jsonpath={.status.failed}"); got != "" && got != "0" {
		t.Errorf("%s pods have failed, while the policy ignores disruptions", got)
	}
}

func TestAPortOfTheHostIsForOnePod(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none")
	manifest := func(name string) string {
		return strings.Replace(asking(name, "", "cpu: 10m"), "resources:", "ports: [{containerPort: 80, hostPort: 18089}], resources:", 1)
	}
	d.apply(manifest("first"))
	d.podUntil("first", "has its place", func(p *corev1.Pod) bool { return p.Spec.NodeName != "" })
	d.apply(manifest("second"))
	d.podUntil("second", "says why it waits", func(p *corev1.Pod) bool {
		return len(p.Status.Conditions) == 1 &&
			p.Status.Conditions[0].Message == "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod "+
				"ports. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
	})
	d.jobctl("delete", "pod", "first")
	d.podUntil("second", "has its place", func(p *corev1.Pod) bool { return p.Spec.NodeName != "" })
}

func TestTheNodeTakesSoManyPods(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none", "--max-pods", "1")
	d.apply(asking("first", "", "cpu: 10m") + asking("second", "", "cpu: 10m"))
	d.podUntil("second", "says why it waits", func(p *corev1.Pod) bool {
		return len(p.Status.Conditions) == 1 && strings.HasPrefix(p.Status.Conditions[0].Message, "0/1 nodes are available: 1 Too many pods. ")
	})
	d.jobctl("delete", "pod", "first")
	d.podUntil("second", "has its place", func(p *corev1.Pod) bool { return p.Spec.NodeName != "" })
}
