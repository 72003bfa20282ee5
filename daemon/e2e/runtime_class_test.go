package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// foreignRuntime creates an OCI runtime that is neither crun nor runc, as far as anybody can tell, and logs its calls.
func foreignRuntime(t *testing.T) (path, calls string) {
	t.Helper()
	real, err := exec.LookPath("crun")
	if err != nil {
		if real, err = exec.LookPath("runc"); err != nil {
			t.Skip("needs crun or runc")
		}
	}
	dir := t.TempDir()
	path, calls = filepath.Join(dir, "foreign"), filepath.Join(dir, "calls")
	script := fmt.Sprintf("#!/bin/sh\necho \"$@\" >>%s\n[ \"$1\" = --systemd-cgroup=false ] && shift\n"+
		"[ \"$1\" = --version ] && echo foreign version 1 && exit\nexec %s \"$@\"\n", calls, real)
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path, calls
}

func classPod(name, class string) string {
	return fmt.Sprintf(`
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: %[2]s}
handler: %[2]s
overhead: {podFixed: {memory: 16Mi}}
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s}
spec:
  runtimeClassName: %[2]s
  restartPolicy: OnFailure
  terminationGracePeriodSeconds: 60
  containers:
  - name: main
    image: busybox:1.36
    command: [sh, -c, "trap 'echo told; exit 0' TERM; trap 'exit 1' USR1; grep Seccomp: /proc/self/status; while :; do sleep 0.05; done"]
    resources: {requests: {cpu: 1m}, limits: {cpu: 1, memory: 48Mi}}
`, name, class)
}

// runtimeOf returns the OCI runtime of a pod's container, as its shard has recorded it.
func (d *daemon) runtimeOf(p *corev1.Pod) (path string) {
	d.t.Helper()
	starts, _ := filepath.Glob(filepath.Join(d.state, "shards/*/containers", "*"+string(p.UID)+"*", "start"))
	if len(starts) != 1 {
		d.t.Fatalf("pod %s has %d containers", p.Name, len(starts))
	}
	var start struct{ Runtime string }
	content, err := os.ReadFile(starts[0])
	if err == nil {
		err = json.Unmarshal(content, &start)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return start.Runtime
}

// TestRuntimeClasses runs pods of several OCI runtimes side by side. Each stays with its own, whatever becomes of the
// daemon and its configuration.
func TestRuntimeClasses(t *testing.T) {
	t.Parallel()
	foreign, calls := foreignRuntime(t)
	want := map[string]string{"foreign": foreign}
	for _, name := range []string{"crun", "runc"} {
		if path, err := exec.LookPath(name); err == nil {
			want[name] = path
		}
	}
	config := filepath.Join(t.TempDir(), "config.yaml")
	configure := func(content string) {
		t.Helper()
		if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure(fmt.Sprintf("runtime-handlers: {foreign: {path: %s, args: [--systemd-cgroup=false]}, gone: /no/such/runtime}", foreign))
	d := start(t, "--config", config)
	for class := range want {
		d.apply(classPod(class, class))
	}
	logs := func(name string, attempts int, want string) {
		t.Helper()
		d.eventually("the log of "+name, func() error {
			p, err := d.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if s := p.Status.ContainerStatuses; len(s) != 1 || int(s[0].RestartCount) != attempts {
				return fmt.Errorf("containers %+v", s)
			}
			if got, err := d.try("jobctl", nil, "logs", name); err != nil || got != want {
				return fmt.Errorf("%w: %s", err, got)
			}
			return nil
		})
	}
	check := func(attempts int) {
		t.Helper()
		for class, path := range want {
			logs(class, attempts, "Seccomp:\t2\n")
			p := d.podUntil(class, "runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
			if got := d.runtimeOf(p); got != path {
				t.Errorf("a pod of class %s is started by %s", class, got)
			}
			if got := d.jobctl("exec", class, "--", "echo", "there"); got != "there\n" {
				t.Errorf("exec in a pod of class %s: %q", class, got)
			}
			for _, file := range []string{"memory.limit_in_bytes", "memory.max"} {
				for _, path := range podCgroup(string(p.UID), file) {
					if got, err := os.ReadFile(path); err != nil || string(got) != "67108864\n" {
						t.Errorf("%s: %q, %v", path, got, err)
					}
				}
			}
		}
	}
	check(0)

	node, err := d.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var handlers []string
	if f := node.Items[0].Status.Features; f == nil || f.SupplementalGroupsPolicy == nil || !*f.SupplementalGroupsPolicy {
		t.Errorf("the node's features are %v", f)
	}
	for _, h := range node.Items[0].Status.RuntimeHandlers {
		handlers = append(handlers, h.Name)
	}
	all := []string{"", "gone"}
	for class := range want {
		all = append(all, class)
	}
	if slices.Sort(all); !slices.Equal(handlers, all) {
		t.Errorf("the node's handlers are %q, want %q", handlers, all)
	}
	for class, says := range map[string]string{
		"nope": `no runtime for "nope" is configured`,
		"gone": `runtime for "gone": stat /no/such/runtime: no such file or directory`,
	} {
		d.apply(classPod(class, class))
		d.eventually("an event says why a pod does not start", func() error {
			if got := d.jobctl("events", "--for=pod/"+class); !strings.Contains(got, "FailedCreatePodSandBox") || !strings.Contains(got, says) {
				return errors.New(got)
			}
			return nil
		})
	}

	d.kill()
	configure("oci-runtime: runc\nruntime-handlers: {nope: " + foreign + "}")
	if _, ok := want["runc"]; !ok {
		configure("runtime-handlers: {nope: " + foreign + "}")
	}
	d.serve()
	check(0)
	d.podUntil("nope", "runs once its handler is there", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	for class := range want {
		d.jobctl("delete", "runtimeclass", class)
		d.jobctl("exec", class, "--", "kill", "-USR1", "1")
	}
	check(1) // the next attempt of each pod has the same runtime
	for class := range want {
		d.jobctl("delete", "pod", class)
	}
	for _, class := range []string{"nope", "gone"} {
		d.jobctl("delete", "pod", class)
	}
	d.eventually("nothing is recorded of pods that are gone", func() error {
		if left, _ := filepath.Glob(filepath.Join(d.state, "handlers", "*")); len(left) > 0 {
			return fmt.Errorf("%q", left)
		}
		return nil
	})
	said, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range []string{"run --detach", "exec --detach", "kill ", "delete --force"} {
		if !strings.Contains(string(said), " "+call) {
			t.Errorf("the OCI runtime was never called for %s:\n%s", call, said)
		}
	}
	if _, err := d.try("jobctl", nil, "get", "runtimeclass", "nope"); err != nil {
		t.Errorf("its class: %v", err)
	}
}

// TestShardOfAForeignRuntimeDies kills the shard that holds the containers of a foreign OCI runtime: since the kernel
// cannot tell how they end, the runtime itself removes them.
func TestShardOfAForeignRuntimeDies(t *testing.T) {
	t.Parallel()
	foreign, calls := foreignRuntime(t)
	d := start(t, "--runtime-handlers", "foreign="+foreign)
	d.apply(classPod("held", "foreign"))
	p := d.podUntil("held", "runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	logged := func(what string) {
		t.Helper()
		d.eventually(what, func() error {
			if said, err := os.ReadFile(calls); err != nil || !strings.Contains(string(said), " delete --force") {
				return fmt.Errorf("%v\n%s", err, said)
			}
			return nil
		})
	}
	d.kill()
	d.killShards()
	d.serve()
	d.eventually("the container is known again", func() error {
		_, err := d.try("jobctl", nil, "exec", "held", "--", "true")
		return err
	})
	d.jobctl("delete", "pod", p.Name)
	logged("the OCI runtime has removed the container")
}
