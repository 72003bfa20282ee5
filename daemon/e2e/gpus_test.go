package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/gpus"
	"github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/runtime/nvidia/nvidiatest"
)

// startWithGPUs starts a jobd on a machine with as many cards, by a CDI file and an nvidia-smi that are made up.
func startWithGPUs(t *testing.T, cards int, flags ...string) (*daemon, *nvidiatest.SMI) {
	t.Helper()
	dir, smi := t.TempDir(), nvidiatest.New(t, cards)
	var list []string
	for i := range cards {
		list = append(list, fmt.Sprintf(`{"name": "%d", "containerEdits": {"env": ["CARD=%d"], "deviceNodes": [{"path": "/dev/nvidia%d", "hostPath": "/dev/null"}]}}`, i, i, i))
	}
	content := `{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [` + strings.Join(list, ",") + `]}`
	if err := os.WriteFile(filepath.Join(dir, "nvidia.json"), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return start(t, append([]string{"--cdi-spec-dirs", dir, "--nvidia-smi", smi.Path}, flags...)...), smi
}

// outsider is a process of the host.
func outsider(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// gpuPod returns a pod that requests devices of a kind, and a Job of the same.
func gpuPod(name, kind string, n int) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers:
  - {name: c, image: "busybox:1.36", resources: {limits: {%s: %d}}, command: [sh, -c, "echo $CARD; exec sleep 1000"]}
`, name, kind, n)
}

func isRunning(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }

// TestGPUsInUse: a card that a program of the host uses is not given away, "why" says whose that program is, and the pod that waits for
// the card gets it when the program has ended. A pod that has a card keeps it whatever else comes to use it.
func TestGPUsInUse(t *testing.T) {
	t.Parallel()
	d, smi := startWithGPUs(t, 1)
	other := outsider(t)
	uses := nvidiatest.Process{PID: other.Process.Pid, Type: "C", Name: "/usr/bin/python3 train.py", MiB: 9216}
	desktop := nvidiatest.Process{PID: os.Getpid(), Type: "C+G", Name: "/usr/lib/xorg/Xorg", MiB: 700}
	smi.Use([]nvidiatest.Process{desktop, uses})
	d.apply(gpuPod("first", "nvidia.com/gpu", 1))
	said := fmt.Sprintf("GPU 0: pid %d of root (python3), 9 GB, not jobd's", other.Process.Pid)
	d.eventually("why names the program", func() error {
		if out := d.jobctl("why", "pods/first"); !strings.Contains(out, said) || strings.Contains(out, "Xorg") {
			return errText(out)
		}
		return nil
	})
	d.podUntil("first", "says why it waits", func(p *corev1.Pod) bool {
		return len(p.Status.Conditions) > 0 && strings.Contains(p.Status.Conditions[0].Message, "Insufficient nvidia.com/gpu")
	})
	if out := d.jobctl("top", "--gpus"); !strings.Contains(out, fmt.Sprintf("pid %d of root (python3)", other.Process.Pid)) || !strings.Contains(out, "24GB") {
		t.Errorf("top --gpus says\n%s", out)
	}

	// A crash changes nothing.
	d.kill()
	d.serve()
	if p := d.podUntil("first", "is there", func(*corev1.Pod) bool { return true }); p.Spec.NodeName != "" {
		t.Error("it starts after a crash")
	}
	smi.Use([]nvidiatest.Process{desktop})
	d.podUntil("first", "runs", isRunning)

	smi.Use([]nvidiatest.Process{desktop, uses})
	d.apply(gpuPod("second", "nvidia.com/gpu", 1))
	d.eventually("why names the pod", func() error {
		if out := d.jobctl("why", "pods/second"); !strings.Contains(out, "first") {
			return errText(out)
		}
		return nil
	})
	d.eventually("the program is seen", func() error { // or the card is free for a moment
		if out := d.jobctl("top", "--gpus"); !strings.Contains(out, fmt.Sprintf("pid %d of root (python3)", other.Process.Pid)) {
			return errText(out)
		}
		return nil
	})
	d.podUntil("first", "still runs", isRunning)
	d.jobctl("delete", "pod", "first")
	d.eventually("why names the program alone", func() error {
		if out := d.jobctl("why", "pods/second"); !strings.Contains(out, said) {
			return errText(out)
		}
		return nil
	})

	// While nvidia-smi does not answer, the program that it has named is looked at.
	smi.Fail(9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")
	_ = other.Process.Kill()
	_ = other.Wait()
	d.podUntil("second", "runs", isRunning)
}

// TestGPUsShared: two pods share a card, a third one that wants it for itself waits for both, and nobody may have several shares.
func TestGPUsShared(t *testing.T) {
	t.Parallel()
	d, _ := startWithGPUs(t, 1, "--devices", "nvidia.com/gpu=4")
	for _, name := range []string{"a", "b"} {
		d.apply(gpuPod(name, "nvidia.com/gpu.shared", 1))
		d.podUntil(name, "runs", isRunning)
	}
	d.apply(gpuPod("whole", "nvidia.com/gpu", 1))
	d.podUntil("whole", "says why it waits", func(p *corev1.Pod) bool {
		return len(p.Status.Conditions) > 0 && strings.Contains(p.Status.Conditions[0].Message, "Insufficient nvidia.com/gpu")
	})
	d.apply(gpuPod("greedy", "nvidia.com/gpu.shared", 2))
	if p := d.podUntil("greedy", "has ended", ended); p.Status.Reason != "UnexpectedAdmissionError" ||
		!strings.Contains(p.Status.Message, "maximum request size for shared resources is 1") {
		t.Errorf("%+v", p.Status)
	}
	d.kill()
	d.serve()
	d.jobctl("delete", "pod", "a")
	if p := d.podUntil("whole", "is there", func(*corev1.Pod) bool { return true }); p.Spec.NodeName != "" {
		t.Error("it starts beside one who shares the card")
	}
	d.jobctl("delete", "pod", "b")
	d.podUntil("whole", "runs", isRunning)
	d.apply(gpuPod("late", "nvidia.com/gpu.shared", 1))
	d.podUntil("late", "says why it waits", func(p *corev1.Pod) bool { return len(p.Status.Conditions) > 0 })
	d.jobctl("delete", "pod", "whole")
	d.podUntil("late", "runs", isRunning)
}

// TestGPUsMeasured: what pods use of their cards is in top, in the metrics and in the history.
func TestGPUsMeasured(t *testing.T) {
	t.Parallel()
	d, smi := startWithGPUs(t, 2)
	d.apply(`
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: c, image: "busybox:1.36", resources: {limits: {nvidia.com/gpu: 1}}, command: [sh, -c, "touch /tmp/on; while [ -e /tmp/on ]; do sleep 0.1; done"]}
`)
	pod := d.running("train", 1)[0]
	pid := 0
	d.eventually("its process is there", func() error {
		found, _ := filepath.Glob("/proc/[0-9]*/cgroup")
		for _, path := range found {
			if text, _ := os.ReadFile(path); strings.Contains(string(text), string(pod.UID)) {
				_, _ = fmt.Sscanf(path, "/proc/%d/cgroup", &pid)
				return nil
			}
		}
		return errText("no process")
	})
	smi.Use([]nvidiatest.Process{{PID: pid, Type: "C", Name: "/usr/bin/python", MiB: 1018}}, nil)
	list := &gpus.List{}
	d.eventually("top shows it", func() error {
		raw, err := d.RESTClient().Get().AbsPath(gpus.Path).DoRaw(t.Context())
		if err != nil {
			return err
		}
		if err := json.Unmarshal(raw, list); err != nil {
			return err
		}
		if len(list.Items) != 2 || len(list.Items[0].Pods) != 1 || list.Items[0].Pods[0].MemoryUsed == nil {
			return errText(string(raw))
		}
		return nil
	})
	if g := list.Items[0]; g.Pods[0].Name != pod.Name || *g.Pods[0].MemoryUsed != 1018<<20 || g.InUse || len(g.Processes) > 0 || *g.Utilization != 10 {
		t.Errorf("%+v", g)
	}
	if out := d.jobctl("top", "--gpus"); !strings.Contains(out, "pod default/"+pod.Name) || !strings.Contains(out, "10%") {
		t.Errorf("top --gpus says\n%s", out)
	}
	metrics, err := d.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		fmt.Sprintf(`gpu="0",modelName="NVIDIA Test",namespace="default",pci_bus_id="00000000:01:00.0",pod="%s"} 10`, pod.Name),
		"DCGM_FI_DEV_FB_USED{", `UUID="` + nvidiatest.UUID(1) + `"`,
	} {
		if !strings.Contains(string(metrics), want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	// The history has it once the watch has seen it twice.
	d.eventually("the watch has seen it twice", func() error {
		if out, err := os.ReadFile(filepath.Join(filepath.Dir(smi.Path), "asked")); err != nil || strings.Count(string(out), "\n") < 4 {
			return errText(string(out))
		}
		return nil
	})
	d.jobctl("exec", pod.Name, "--", "rm", "/tmp/on")
	d.complete("train")
	past := &history.List{}
	if err := json.Unmarshal([]byte(d.jobctl("history", "jobs/train", "-o", "json")), past); err != nil {
		t.Fatal(err)
	}
	if j := past.Items[0]; j.GPUSeconds <= 0 || j.PeakGPUMemory != 1018<<20 || j.GPUBusySeconds <= 0 || j.GPUBusySeconds > j.GPUSeconds {
		t.Errorf("%+v", j.Use)
	}
	if out := d.jobctl("history", "jobs/train"); !strings.Contains(out, "GPU-MEMORY") || !strings.Contains(out, "1018Mi") {
		t.Errorf("the history says\n%s", out)
	}
}
