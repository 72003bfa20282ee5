package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// TestKubectl drives jobd with the machine's own kubectl and the kubeconfig that jobd wrote.
func TestKubectl(t *testing.T) {
	t.Parallel()
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
	watch := talk(t, command("get", "jobs", "-w", "--no-headers"))

	run(saying("hello", "echo one; until [ -e /tmp/go ]; do sleep 0.1; done; echo two", "", "restartPolicy: Never"), "apply", "-f", "-")
	run("", "wait", "--for=jsonpath={.status.ready}=1", "job/hello", patiently)
	watch.hears("Running")
	follow := talk(t, command("logs", "-f", "job/hello"))
	follow.hears("one\n")
	run("", "exec", "job/hello", "--", "touch", "/tmp/go")
	if code := follow.ends(); code != 0 || follow.output() != "one\ntwo\n" {
		t.Errorf("logs -f: %d, %q", code, follow.output())
	}
	run("", "wait", "--for=condition=complete", "job/hello", patiently)
	watch.hears("Complete")
	if got := run("", "get", "jobs"); !strings.Contains(got, "1/1") {
		t.Errorf("get jobs:\n%s", got)
	}
	if got := run("", "describe", "job/hello"); !strings.Contains(got, "1 Succeeded") {
		t.Errorf("describe:\n%s", got)
	}
	if got := run(
		"", "get", "pods", "--selector=batch.kubernetes.io/job-name=hello", "--output=jsonpath={.items[*].metadata.name}",
	); !strings.HasPrefix(got, "hello-") {
		t.Errorf("pods: %q", got)
	}
	run("", "delete", "job/hello", "--wait=true")
	d.eventually("its pod goes after it", func() error {
		if got := run("", "get", "jobs,pods"); !strings.Contains(got, "No resources found") {
			return errText(got)
		}
		return nil
	})
}

// ports counts the ports that freePort has returned. They are below those that the kernel chooses for outgoing
// connections: a daemon that was killed comes back to its own port.
var ports = func() *atomic.Int32 { p := &atomic.Int32{}; p.Store(rand.Int32N(10000)); return p }()

// freePort returns a loopback address that nobody listened on a moment ago, and a different one to each caller.
func freePort(t *testing.T) string {
	t.Helper()
	for range 1000 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+ports.Add(1)%10000))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}
