package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// kubectl runs the machine's kubectl against a daemon that listens, and returns what it prints.
func (d *daemon) kubectl(args ...string) string {
	d.t.Helper()
	out, err := d.tryKubectl(args...)
	if err != nil {
		d.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (d *daemon) tryKubectl(args ...string) (string, error) {
	cmd := exec.CommandContext(d.t.Context(), needKubectl(d.t), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(d.root, "kubeconfig"), "HOME="+d.t.TempDir(), "NO_PROXY=127.0.0.1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// each sets a request for every container of a Job's pods.
func each(manifest, requests string) string {
	return manifest + "        resources: {requests: {" + requests + "}}\n"
}

// gangWaits waits until a gang is found not to fit. Its PodGroup may not exist yet, which kubectl does not wait for.
func (d *daemon) gangWaits() {
	d.t.Helper()
	d.eventually("a gang waits", func() error {
		if out, err := d.tryKubectl("wait", "podgroups", "--all", "--for=condition=PodGroupInitiallyScheduled=false", "--timeout=10s"); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

func TestAGangStartsTogether(t *testing.T) {
	t.Parallel()
	needKubectl(t)
	d := start(t, "--listen", freePort(t), "--allocatable", "cpu=3", "--network", "none")
	d.apply(asking("blocker", "", "cpu: 1500m"))
	d.podUntil("blocker", "runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	d.apply(each(sleeper("gang", 3, 0, "completionMode: Indexed\n  scheduling: {schedulingPolicy: {gang: {}}}"), "cpu: 1"))
	d.gangWaits()
	for _, p := range d.pods("gang") {
		if p.Spec.NodeName != "" {
			t.Errorf("%s is on the node, which has no room for the others", p.Name)
		}
		if !strings.HasPrefix(*p.Spec.SchedulingGroup.PodGroupName, "gang-") || len(p.OwnerReferences) != 2 {
			t.Errorf("%s: %v %v", p.Name, p.Spec.SchedulingGroup, p.OwnerReferences)
		}
	}
	if got := d.kubectl("get", "podgroups"); !strings.Contains(got, "Gang(3)") || !strings.Contains(got, "Unschedulable") {
		t.Errorf("get podgroups:\n%s", got)
	}
	if got := d.kubectl("describe", "pods", "--show-events", "-l", "job-name=gang"); strings.Count(
		got, "minCount (3) cannot be satisfied: 1 scheduled, 1 remaining",
	) != 3 {
		t.Errorf("describe pods:\n%s", got)
	}
	d.kill() // those who wait still do in the next daemon
	d.serve()
	d.kubectl("delete", "pod", "blocker")
	d.complete("gang")
	var at string
	for _, p := range d.pods("gang") {
		for _, c := range p.Status.Conditions {
			if c.Type != corev1.PodScheduled {
				continue
			}
			if at == "" {
				at = c.LastTransitionTime.String()
			}
			if c.LastTransitionTime.String() != at {
				t.Errorf("%s came onto the node at %s, another one at %s", p.Name, c.LastTransitionTime, at)
			}
		}
	}
	d.kubectl("wait", "podgroups", "--all", "--for=condition=PodGroupInitiallyScheduled", patiently)
	if got := d.kubectl("get", "events", "--field-selector", "involvedObject.name=gang"); !strings.Contains(got, "Created Workload gang-") ||
		!strings.Contains(got, "Created PodGroup gang-") {
		t.Errorf("events:\n%s", got)
	}
	d.kubectl("delete", "job", "gang")
	d.kubectl("wait", "workloads,podgroups", "--all", "--for=delete", patiently)
}

func TestJobsBecomeGangsWhereThatIsSet(t *testing.T) {
	t.Parallel()
	needKubectl(t)
	d := start(t, "--listen", freePort(t), "--allocatable", "cpu=3", "--network", "none", "--workload-with-job")
	d.apply(asking("blocker", "", "cpu: 1500m"))
	d.podUntil("blocker", "runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	d.apply(each(sleeper("gang", 3, 0, "completionMode: Indexed"), "cpu: 1"))
	d.gangWaits()
	if out, err := d.tryKubectl("patch", "job", "gang", "-p", `{"spec":{"parallelism":2}}`); err == nil ||
		!strings.Contains(out, "field is immutable while all pods of the Job are scheduled as a gang") {
		t.Errorf("another size: %v\n%s", err, out)
	}
	d.apply(each(sleeper("plain", 1, 0, ""), "cpu: 1"))
	d.complete("plain")
	d.kubectl("delete", "pod", "blocker")
	d.complete("gang")
}
