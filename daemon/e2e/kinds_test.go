package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestKubectlOnKinds uses the kinds other than Jobs and pods as a person would, and one namespace from its beginning to
// its end.
func TestKubectlOnKinds(t *testing.T) {
	t.Parallel()
	kubectl := needKubectl(t)
	d := start(t, "--listen", freePort(t))
	home := t.TempDir()
	kubeconfig := filepath.Join(d.root, "kubeconfig")
	limited := filepath.Join(home, "limited")
	try := func(config, input string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), kubectl, args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+config, "HOME="+home, "NO_PROXY=127.0.0.1")
		cmd.Stdin = strings.NewReader(input)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	run := func(input string, args ...string) string {
		t.Helper()
		out, err := try(kubeconfig, input, args...)
		if err != nil {
			t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	has := func(what, got string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s lacks %q:\n%s", what, w, got)
			}
		}
	}

	has("get nodes", run("", "get", "nodes", "-o", "wide"), "Ready", "v1.37", "containerd://")
	has("describe node", run("", "describe", "node"), "kubernetes.io/hostname=", "KubeletReady", "Unschedulable:      false")
	has("get pc", run("", "get", "pc"), "system-cluster-critical   2000000000   false", "system-node-critical")
	has("can-i", run("", "auth", "can-i", "create", "jobs"), "yes")
	has("whoami", run("", "auth", "whoami"), "jobd:admin")

	run("", "create", "namespace", "team")
	run("", "label", "namespace", "team", "pod-security.kubernetes.io/enforce=baseline") // or handing out "submit" brings a warning
	eventually := func(args ...string) {                                                 // kubectl does not wait for what does not exist yet
		t.Helper()
		d.eventually(strings.Join(args, " "), func() error {
			if out, err := try(kubeconfig, "", args...); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
	}
	eventually("get", "-n", "team", "sa/default", "cm/kube-root-ca.crt")
	has("root certificate", run("", "get", "cm", "-n", "team", "kube-root-ca.crt", "-o", "yaml"), "BEGIN CERTIFICATE")
	run("", "create", "configmap", "-n", "team", "c", "--from-literal=a=b")
	run("", "create", "secret", "generic", "-n", "team", "s", "--from-literal=a=b")
	has("get secrets", run("", "get", "secrets", "-n", "team"), "Opaque   1")
	run("", "create", "serviceaccount", "-n", "team", "robot")
	run("", "create", "cronjob", "-n", "team", "nightly", "--image=busybox", "--schedule=0 3 * * *")
	has("get cj", run("", "get", "cj", "-n", "team"), "nightly   0 3 * * *   <none>     False")
	run("", "create", "priorityclass", "high", "--value=1000")
	run(strings.Replace(sleeper("long", 1, 3600, ""), "containers:", "priorityClassName: high\n      containers:", 1), "apply", "-n", "team", "-f", "-")
	run("", "wait", "-n", "team", "--for=jsonpath={.status.ready}=1", "job/long", patiently)
	has("priority", run("", "get", "pods", "-n", "team", "-o", "jsonpath={.items[*].spec.priority}"), "1000")

	node := strings.TrimSpace(run("", "get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"))
	run("", "cordon", node)
	has("cordoned", run("", "get", "nodes"), "Ready,SchedulingDisabled")
	run(sleeper("waits", 1, 0, ""), "apply", "-n", "team", "-f", "-")
	eventually("wait", "-n", "team", "--for=jsonpath={.status.phase}=Pending", "pod", "-l", "job-name=waits", patiently)
	run("", "uncordon", node)
	run("", "wait", "-n", "team", "--for=condition=complete", "job/waits", patiently)

	config := d.jobctl("kubeconfig", "--role", "submit", "--namespace", "team")
	if err := os.WriteFile(limited, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := try(limited, sleeper("mine", 1, 0, ""), "apply", "-f", "-"); err != nil {
		t.Errorf("submit in its namespace: %s", out)
	}
	if out, err := try(limited, "", "get", "jobs", "-A"); err == nil || !strings.Contains(out, "Forbidden") {
		t.Errorf("get jobs of all namespaces: %v %s", err, out)
	}

	run("", "delete", "namespace", "team", patiently)
	has("after the namespace", run("", "get", "jobs,pods,cm,secrets,sa,cj", "-n", "team"), "No resources found")
}
