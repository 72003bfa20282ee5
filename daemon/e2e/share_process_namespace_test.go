package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Containers that see each other's processes (PodSpec.ShareProcessNamespace).
func TestShareProcessNamespace(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, d *daemon) {
		d.apply(`
apiVersion: v1
kind: Pod
metadata: {name: shared}
spec:
  restartPolicy: Never
  shareProcessNamespace: true
  containers:
  # It starts nothing that for a moment looks like it.
  - {name: served, image: "busybox:1.36", command: [sh, -c, "trap 'echo told; exit 7' TERM; sleep 1000 & wait"]}
  - name: again
    image: busybox:1.36
    restartPolicy: OnFailure
    command: [sh, -c, "sleep 100000 & until test -e /tmp/go; do sleep 0.05; done; exit 1"]
  - name: watcher
    image: busybox:1.36
    securityContext: {capabilities: {add: [SYS_PTRACE]}}
    command: [sh, -c]
    args: ["until test -e /tmp/go; do sleep 0.05; done; ls /proc/1/root/ /proc/1/root/..; for p in /proc/[0-9]*; do grep -qs told $p/cmdline && ! grep -qs watch $p/cmdline && kill ${p#/proc/}; done; true # watch"]
`)
		d.eventually("all run", func() error {
			_, err := d.try("jobctl", nil, "wait", "--for=condition=Ready", "pod/shared", "--timeout=1s")
			return err
		})
		d.kill()
		d.serve() // the namespace outlives the daemon
		d.jobctl("exec", "shared", "-c", "again", "--", "touch", "/tmp/go")
		d.eventually("one of them is started again, there too", func() error {
			_, err := d.try("jobctl", nil, "wait", "--for=jsonpath={.status.containerStatuses[0].restartCount}=1", "pod/shared", "--timeout=1s")
			return err
		})
		// What its first run left behind is gone.
		d.eventually("it runs, and nothing of its first run", func() error {
			out, err := d.try("jobctl", nil, "exec", "shared", "-c", "again", "--", "ps", "-o", "args")
			if strings.Count(out, "\nsleep 100000") != 1 {
				return fmt.Errorf("%q, %w", out, err)
			}
			return err
		})
		d.jobctl("exec", "shared", "-c", "watcher", "--", "touch", "/tmp/go")
		d.jobctl("wait", "--for=jsonpath={.status.containerStatuses[1].state.terminated.exitCode}=7", "pod/shared", patiently)
		if got := d.jobctl("logs", "shared", "-c", "served"); got != "told\n" {
			t.Errorf("the served one said %q", got)
		}
		// The first process leads nowhere, even for one that may trace it. Where AppArmor confines that, it may not.
		d.jobctl("wait", "--for=jsonpath={.status.containerStatuses[2].state.terminated}", "pod/shared", patiently)
		if got := d.jobctl("logs", "shared", "-c", "watcher"); got != "/proc/1/root/:\n\n/proc/1/root/..:\n" &&
			got != "ls: /proc/1/root/: Permission denied\nls: /proc/1/root/..: Permission denied\n" {
			t.Errorf("in the root of the first process: %q", got)
		}
		d.jobctl("delete", "pod", "shared", "--grace-period=0", "--force")
		d.eventually("the namespace is gone", func() error {
			left, _ := filepath.Glob(filepath.Join(d.state, "processes", "*"))
			if len(left) > 0 {
				return os.ErrExist
			}
			return nil
		})
	})
}
