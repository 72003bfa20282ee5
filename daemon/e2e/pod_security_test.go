package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// conforming is a Job that the level restricted admits, whose pod runs a script with a path of the host at /h.
func conforming(name, path, mount, script string) string {
	return fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: %s}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: c
        image: busybox:1.36
        command: [sh, -c, %q]
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
        volumeMounts: [{name: h, mountPath: /h%s}]
      volumes: [{name: h, hostPath: {path: %s}}]
`, name, script, mount, path)
}

// TestWhoSubmitsIsNotRoot tries, with the role submit, what would take over the host.
func TestWhoSubmitsIsNotRoot(t *testing.T) {
	t.Parallel()
	d := start(t, "--listen", "127.0.0.1:0")
	data, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(data, 0o777); err != nil {
		t.Fatal(err)
	}
	d.apply(`
apiVersion: v1
kind: Pod
metadata: {name: old}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: "busybox:1.36", command: [sleep, "3600"], securityContext: {privileged: true}}]
`)
	d.podUntil("old", "runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	if out := d.jobctl("kubeconfig", "--role", "submit", "-n", "default"); !strings.HasPrefix(
		out, "Warning: whoever has this kubeconfig can become root of this host",
	) {
		t.Errorf("not warned: %s", out)
	}
	if out := d.jobctl("label", "namespace", "default", "pod-security.kubernetes.io/enforce=restricted"); !strings.Contains(out, "old: ") ||
		!strings.Contains(out, "privileged") {
		t.Errorf("not warned of the pod that is there: %s", out)
	}
	d.jobctl("annotate", "namespace", "default", "jobd.dev/allowed-host-paths="+data)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(d.jobctl("kubeconfig", "--role", "submit", "-n", "default")), 0o600); err != nil {
		t.Fatal(err)
	}
	submit := func(input string, args ...string) (string, error) {
		return d.try("jobctl", []byte(input), append([]string{"--kubeconfig", kubeconfig}, args...)...)
	}

	for name, spec := range map[string]string{
		"privileged":   `{containers: [{name: c, image: "busybox:1.36", securityContext: {privileged: true}}]}`,
		"host network": `{hostNetwork: true, containers: [{name: c, image: "busybox:1.36"}]}`,
		"host path":    `{containers: [{name: c, image: "busybox:1.36"}], volumes: [{name: v, hostPath: {path: /etc}}]}`,
	} {
		if out, err := submit("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: "+spec, "create", "-f", "-"); err == nil ||
			!strings.Contains(out, "is forbidden") {
			t.Errorf("%s: %v, %s", name, err, out)
		}
	}
	for _, args := range [][]string{
		{"exec", "old", "--", "id"}, {"attach", "old"}, {"cp", "old:/etc/passwd", filepath.Join(t.TempDir(), "x")},
		{"label", "namespace", "default", "--overwrite", "pod-security.kubernetes.io/enforce=privileged"},
		{"annotate", "namespace", "default", "--overwrite", "jobd.dev/allowed-host-paths=/etc"},
		{"create", "token", "default"}, {"create", "namespace", "mine"}, {"create", "serviceaccount", "mine"},
		{"debug", "old", "--image=busybox:1.36", "--copy-to=new", "--profile=sysadmin"},
		{"debug", "old", "--image=busybox:1.36", "--profile=restricted"},
	} {
		if out, err := submit("", args...); err == nil || !strings.Contains(strings.ToLower(out), "forbidden") {
			t.Errorf("%v: %v, %s", args, err, out)
		}
	}

	if out, err := submit(
		strings.Replace(sleeper("mighty", 1, 0, ""), "containers:", "hostPID: true\n      containers:", 1), "create", "-f", "-",
	); err != nil ||
		!strings.Contains(out, `Warning: would violate PodSecurity "restricted:latest": host namespaces (hostPID=true)`) {
		t.Errorf("a Job: %v, %s", err, out)
	}
	d.eventually("its pods are refused", func() error {
		out, _ := submit("", "events", "--for", "job/mighty")
		if strings.Contains(out, "FailedCreate") &&
			strings.Contains(out, `is forbidden: violates PodSecurity "restricted:latest": host namespaces (hostPID=true)`) {
			return nil
		}
		return errors.New(out)
	})
	if pods := d.pods("mighty"); len(pods) != 0 {
		t.Errorf("it has pods: %v", pods)
	}

	run := func(manifest string) {
		t.Helper()
		if out, err := submit(manifest, "create", "-f", "-"); err != nil || strings.Contains(out, "violate") {
			t.Fatalf("a Job that conforms: %v, %s", err, out)
		}
	}
	run(conforming("writes", data, "", "echo hello >/h/file; ln -s / /h/evil; mkdir /h/dir"))
	d.complete("writes")
	if content, err := os.ReadFile(filepath.Join(data, "file")); err != nil || string(content) != "hello\n" {
		t.Errorf("what it has written: %q, %v", content, err)
	}
	run(conforming("evil", data+"/evil/etc", "", "cat /h/passwd"))
	d.eventually("the symlink leads nowhere", func() error {
		list, err := d.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=FailedMount"})
		if err != nil {
			return err
		}
		for _, e := range list.Items {
			if strings.Contains(e.Message, "leads out of "+data) {
				return nil
			}
		}
		return fmt.Errorf("%d events", len(list.Items))
	})

	d.jobctl("annotate", "namespace", "default", "jobd.dev/allowed-host-paths-")
	d.eventually("the symlink leads nowhere without the list either", func() error {
		list, err := d.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=FailedMount"})
		if err != nil {
			return err
		}
		for _, e := range list.Items {
			if strings.Contains(e.Message, "there is a symlink in hostPath "+data+"/evil/etc") {
				return nil
			}
		}
		return fmt.Errorf("%d events", len(list.Items))
	})

	d.jobctl("annotate", "namespace", "default", "--overwrite", "jobd.dev/allowed-host-paths="+data+":ro")
	if out, err := submit(conforming("blunt", data, "", "true"), "create", "-f", "-"); err != nil ||
		!strings.Contains(out, "must be true: the namespace allows "+data+" only for reading") {
		t.Errorf("a Job that would write: %v, %s", err, out)
	}
	run(conforming("reads", data+"/dir", ", readOnly: true", "touch /h/x && exit 1; ls /h"))
	d.complete("reads")
	if out := d.jobctl("logs", "jobs/reads"); !strings.Contains(out, "Read-only file system") {
		t.Errorf("it said %s", out)
	}
	d.jobctl("delete", "pod", "old")
}
