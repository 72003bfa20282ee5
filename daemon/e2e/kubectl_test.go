package e2e

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestKubectl drives jobd with the machine's own kubectl and the kubeconfig that jobd wrote.
func TestKubectl(t *testing.T) {
	kubectl := needKubectl(t)
	d := start(t, "--listen", freePort(t))
	kubeconfig := filepath.Join(d.root, "kubeconfig")
	if info, err := os.Stat(kubeconfig); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("kubeconfig: %v %v, want mode 0600", info, err)
	}
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), kubectl, args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+t.TempDir(), "NO_PROXY=127.0.0.1")
		return cmd
	}
	run := func(input string, args ...string) string {
		t.Helper()
		cmd := command(args...)
		cmd.Stdin = strings.NewReader(input)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	var watched bytes.Buffer
	watch := command("get", "jobs", "-w", "--no-headers")
	watch.Stdout = &watched
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}

	run(strings.Replace(sleeper("hello", 1, 0, ""), `[sleep, "0"]`, `[sh, -c, "echo one; sleep 2; echo two"]`, 1), "apply", "-f", "-")
	run("", "wait", "--for=jsonpath={.status.ready}=1", "job/hello", "--timeout=60s")
	if got := run("", "logs", "-f", "job/hello"); got != "one\ntwo\n" {
		t.Errorf("logs -f: %q", got)
	}
	run("", "wait", "--for=condition=complete", "job/hello", "--timeout=60s")
	if got := run("", "get", "jobs"); !strings.Contains(got, "1/1") {
		t.Errorf("get jobs:\n%s", got)
	}
	if got := run("", "describe", "job/hello"); !strings.Contains(got, "1 Succeeded") {
		t.Errorf("describe:\n%s", got)
	}
	if got := run("", "get", "pods", "--selector=batch.kubernetes.io/job-name=hello", "--output=jsonpath={.items[*].metadata.name}"); !strings.HasPrefix(got, "hello-") {
		t.Errorf("pods: %q", got)
	}
	run("", "delete", "job/hello", "--wait=true")
	if got := run("", "get", "jobs,pods"); !strings.Contains(got, "No resources found") {
		t.Errorf("after the deletion:\n%s", got)
	}
	time.Sleep(100 * time.Millisecond) // the watcher prints what it was sent
	_ = watch.Process.Kill()
	_ = watch.Wait()
	if got := watched.String(); !strings.Contains(got, "Running") || !strings.Contains(got, "Complete") {
		t.Errorf("get -w saw:\n%s", got)
	}
}

// freePort is a loopback address that nobody listened on a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
