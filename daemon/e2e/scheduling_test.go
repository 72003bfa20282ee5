package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// asking is a pod of one container that sleeps, with a line of its spec and what it asks for.
func asking(name, extra, limits string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  %s
  containers:
  - {name: c, image: "busybox:1.36", command: [sleep, "600"], resources: {limits: {%s}}}
---
`, name, extra, limits)
}

func TestPodsThatNeverFitSaySo(t *testing.T) {
	t.Parallel()
	d := start(t, "--allocatable", "cpu=2,memory=1Gi")
	d.apply(asking("cpu", "", "cpu: 3") + asking("gpu", "", "nvidia.com/gpu: 1") +
		asking("both", "", "cpu: 3, memory: 2Gi") +
		asking("elsewhere", "nodeSelector: {disk: ssd}", "cpu: 1") +
		asking("here", "nodeSelector: {kubernetes.io/os: linux}", "cpu: 1"))
	for name, why := range map[string]string{
		"cpu":       "1 Insufficient cpu",
		"gpu":       "1 Insufficient nvidia.com/gpu",
		"both":      "1 Insufficient cpu, 1 Insufficient memory",
		"elsewhere": "1 node(s) didn't match Pod's node affinity/selector",
	} {
		why = "0/1 nodes are available: " + why + ". preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
		d.podUntil(name, "says why it waits", func(p *corev1.Pod) bool {
			c := p.Status.Conditions
			return p.Status.Phase == corev1.PodPending && len(c) == 1 && c[0].Type == corev1.PodScheduled &&
				c[0].Status == corev1.ConditionFalse && c[0].Reason == "Unschedulable" && c[0].Message == why
		})
		if events := d.jobctl("events", "--for", "pod/"+name); strings.Count(events, "FailedScheduling") != 1 || !strings.Contains(events, why) {
			t.Errorf("events of %s:\n%s", name, events)
		}
	}
	d.podUntil("here", "runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	d.jobctl("label", "nodes", "--all", "disk=ssd")
	d.podUntil("elsewhere", "runs now that this is the node it wants", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	d.jobctl("delete", "pod", "cpu", "gpu", "both", "--wait=true", patiently)
}

func TestPodsWaitForRoom(t *testing.T) {
	t.Parallel()
	d := start(t, "--allocatable", "cpu=2,example.com/licence=1")
	d.apply(asking("first", "priorityClassName: system-node-critical", "cpu: 1500m")) // no other pod may have its room
	running := func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }
	d.podUntil("first", "runs", running)
	d.apply(asking("low", "", "cpu: 1"))
	time.Sleep(time.Second) // those that follow are created in another second
	d.apply(asking("high", "priorityClassName: system-cluster-critical", "cpu: 1500m") + asking("small", "", "cpu: 500m"))
	d.podUntil("small", "runs beside the first", running)
	for _, name := range []string{"low", "high"} {
		if p := d.podUntil(name, "is there", func(*corev1.Pod) bool { return true }); p.Spec.NodeName != "" {
			t.Errorf("%s is on the node, which has no room for it", name)
		}
	}
	d.kill() // what runs keeps its room in the next daemon
	d.serve()
	d.jobctl("delete", "pod", "first")
	d.podUntil("high", "runs before the older one", running)
	if p := d.podUntil("low", "is there", func(*corev1.Pod) bool { return true }); p.Spec.NodeName != "" {
		t.Error("low is on the node, which has no room for it")
	}
	d.jobctl("delete", "pod", "high")
	d.podUntil("low", "runs", running)
}
