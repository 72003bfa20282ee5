package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Devices that a file of the Container Device Interface offers: each goes to one pod at a time, even after the daemon
// has died, and a pod that finds none waits.
func TestDevices(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const offer = `{"cdiVersion": "0.6.0", "kind": "example.com/gpu",
"containerEdits": {"env": ["DRIVER=present"]},
"devices": [
  {"name": "0", "containerEdits": {"env": ["GPU=zero"], "deviceNodes": [{"path": "/dev/gpu0", "hostPath": "/dev/null"}], "mounts": [{"hostPath": "/etc/hostname", "containerPath": "/driver", "options": ["ro", "bind"]}]}},
  {"name": "1", "containerEdits": {"env": ["GPU=one"], "deviceNodes": [{"path": "/dev/gpu1", "hostPath": "/dev/null"}]}},
  {"name": "all", "containerEdits": {"deviceNodes": [{"path": "/dev/gpu0", "hostPath": "/dev/null"}, {"path": "/dev/gpu1", "hostPath": "/dev/null"}]}}]}`
	if err := os.WriteFile(filepath.Join(dir, "gpu.json"), []byte(offer), 0o644); err != nil {
		t.Fatal(err)
	}
	d := start(t, "--cdi-spec-dirs", dir)
	const pod = `
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers:
  - {name: c, image: "busybox:1.36", resources: {limits: {example.com/gpu: 1}}, command: [sh, -c, "cat /dev/gpu* && echo $DRIVER $GPU $(ls /dev | grep gpu); exec sleep 1000"]}
---
`
	running := func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }
	said := func(name string) (line string) {
		t.Helper()
		d.eventually(name+" has said what it has got", func() error {
			if line = d.jobctl("logs", name); !strings.HasSuffix(line, "\n") {
				return errText(line)
			}
			return nil
		})
		return line
	}
	nodes, err := d.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	patch := func(op string) {
		t.Helper()
		d.jobctl("patch", "node", nodes.Items[0].Name, "--subresource=status", "--type=json",
			"-p", `[{"op": "`+op+`", "path": "/status/capacity/example.com~1dongle", "value": "1"}]`)
	}
	patch("add")
	d.apply(strings.ReplaceAll(pod, "NAME", "first"))
	d.podUntil("first", "runs", running)
	d.kill()
	d.serve()
	d.apply(strings.ReplaceAll(pod, "NAME", "second"))
	d.podUntil("second", "runs", running)
	d.apply(strings.ReplaceAll(pod, "NAME", "third"))
	third := d.podUntil("third", "says why it waits", func(p *corev1.Pod) bool { return p.Spec.NodeName == "" && len(p.Status.Conditions) > 0 })
	if c := third.Status.Conditions[0]; c.Reason != corev1.PodReasonUnschedulable ||
		!strings.HasPrefix(c.Message, "0/1 nodes are available: 1 Insufficient example.com/gpu.") {
		t.Errorf("the one that waits: %+v", c)
	}
	got := []string{said("first"), said("second")}
	slices.Sort(got)
	if want := []string{"present one gpu1\n", "present zero gpu0\n"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if nodes, err = d.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, list := range []corev1.ResourceList{nodes.Items[0].Status.Capacity, nodes.Items[0].Status.Allocatable} {
		if n := list["example.com/gpu"]; n.Value() != 2 {
			t.Errorf("the node has %v", list)
		}
	}
	first := said("first")
	d.jobctl("delete", "pod", "first")
	d.podUntil("third", "runs", running)
	if got := said("third"); got != first {
		t.Errorf("the next one got %q, want what was given back: %q", got, first)
	}

	// A client has added another resource, which is only counted (NodeStatus.Capacity).
	const dongle = `
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: "busybox:1.36", resources: {limits: {example.com/dongle: 1}}, command: [sleep, "1000"]}]
---
`
	d.apply(strings.ReplaceAll(dongle, "NAME", "dongle"))
	d.podUntil("dongle", "runs", running)
	patch("remove")
	d.apply(strings.ReplaceAll(dongle, "NAME", "none"))
	none := d.podUntil("none", "says why it waits", func(p *corev1.Pod) bool { return len(p.Status.Conditions) > 0 })
	if c := none.Status.Conditions[0]; !strings.HasPrefix(c.Message, "0/1 nodes are available: 1 Insufficient example.com/dongle.") {
		t.Errorf("one that waits for a dongle: %+v", c)
	}
}
