package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What nvidia-ctk writes is offered without configuration, each device once, for as long as it is there, and the
// RuntimeClass that manifests for such devices name works. The devices are those of a file that is made up.
func TestNvidiaDevices(t *testing.T) {
	t.Parallel()
	const offer = `{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "containerEdits": {"env": ["NVIDIA_VISIBLE_DEVICES=void"]}, "devices": [
  {"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0", "hostPath": "/dev/null"}]}},
  {"name": "GPU-5cb0e3d8-1b7f-3f0c-0c6e-0e5a4b1f7a01", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0", "hostPath": "/dev/null"}]}},
  {"name": "1", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia1", "hostPath": "/dev/zero"}]}},
  {"name": "GPU-5cb0e3d8-1b7f-3f0c-0c6e-0e5a4b1f7a02", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia1", "hostPath": "/dev/zero"}]}},
  {"name": "all", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0", "hostPath": "/dev/null"}, {"path": "/dev/nvidia1", "hostPath": "/dev/zero"}]}}]}`
	dir := filepath.Join(t.TempDir(), "cdi")
	d := start(t, "--cdi-spec-dirs", dir)
	offers := func(want string) {
		t.Helper()
		d.eventually("the node offers "+want+" devices", func() error {
			nodes, err := d.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return err
			}
			if n := nodes.Items[0].Status.Allocatable["nvidia.com/gpu"]; n.String() != want {
				return errText(n.String())
			}
			return nil
		})
	}
	d.apply(`
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: nvidia}
handler: nvidia
---
apiVersion: v1
kind: Pod
metadata: {name: gpus}
spec:
  restartPolicy: Never
  runtimeClassName: nvidia
  containers:
  - {name: c, image: "busybox:1.36", resources: {limits: {nvidia.com/gpu: 2}}, command: [sh, -c, "echo $NVIDIA_VISIBLE_DEVICES; cd /dev; ls nvidia*"]}
`)
	waiting := d.podUntil("gpus", "says why it waits", func(p *corev1.Pod) bool { return len(p.Status.Conditions) > 0 })
	if c := waiting.Status.Conditions[0]; !strings.HasPrefix(c.Message, "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.") {
		t.Errorf("it waits: %+v", c)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "nvidia.json"), []byte(offer), 0o644); err != nil {
		t.Fatal(err)
	}
	offers("2")
	if p := d.podUntil("gpus", "has ended", ended); p.Status.Phase != corev1.PodSucceeded {
		t.Errorf("%+v", p.Status)
	}
	if got, want := d.jobctl("logs", "gpus"), "void\nnvidia0\nnvidia1\n"; got != want {
		t.Errorf("it has %q, want %q", got, want)
	}
	if err := os.Remove(filepath.Join(dir, "nvidia.json")); err != nil {
		t.Fatal(err)
	}
	offers("0")
}
