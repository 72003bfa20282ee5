package containerd

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/jobd/jobd/runtime/cgroup"
)

func TestCtrTellsTheTruth(t *testing.T) {
	ctr, err := exec.LookPath("ctr")
	if err != nil {
		t.Skip("needs ctr (apt install containerd)")
	}
	r := newRig(t, "")
	running, ended := r.container(t, pod("u1", "sleep 1000"), "main"), r.container(t, pod("u2", "exit 3"), "main")
	r.start(t, running)
	r.start(t, ended)
	r.wait(t, ended.ID)
	ask := func(args ...string) string {
		out, err := exec.Command(ctr, append([]string{"-a", r.config.State + "/containerd.sock", "-n", namespace}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		return string(out)
	}
	tasks := ask("tasks", "ls")
	for id, state := range map[string]string{running.ID: "RUNNING", ended.ID: "STOPPED"} {
		if !containsLine(tasks, id, state) || !containsLine(ask("containers", "ls"), id, r.image.Name) {
			t.Errorf("%s: got\n%s", id, tasks)
		}
	}
	if out, err := exec.Command(ctr, "-a", r.config.State+"/containerd.sock", "-n", "k8s.io", "tasks", "ls").CombinedOutput(); err != nil ||
		strings.Contains(string(out), running.ID) {
		t.Errorf("another namespace: %v: %s", err, out)
	}
	if out := ask("images", "ls"); !containsLine(out, r.image.Name) {
		t.Errorf("got\n%s", out)
	}
	pods, err := cgroup.OpenPods(r.config.CgroupParent)
	if err != nil {
		t.Fatal(err)
	}
	limited := r.container(t, pod("u3", "sleep 1000"), "main")
	group, err := pods.SetUp("u3", &specs.LinuxResources{Pids: &specs.LinuxPids{Limit: ptr(int64(10))}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pods.TearDown("u3") })
	limited.Spec.Linux.CgroupsPath = group + "/" + limited.ID
	for _, id := range []string{running.ID, r.start(t, limited).ID} {
		if pid := strconv.Itoa(r.state(t, id).PID); !containsLine(ask("tasks", "ps", id), pid) {
			t.Errorf("ctr shows no process %s of %s", pid, id)
		}
	}
	ask("tasks", "kill", "-s", "KILL", running.ID)
	if status := r.wait(t, running.ID); status.ExitCode != 137 {
		t.Errorf("got %+v", status)
	}
}

func containsLine(text string, words ...string) bool {
	for line := range strings.Lines(text) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			return true
		}
	}
	return false
}
