package e2e

import (
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Which system calls a container may make (SecurityContext.SeccompProfile): those of the default profile unless it says
// otherwise, on each OCI runtime.
func TestSeccompProfile(t *testing.T) {
	t.Parallel()
	const pods = `
apiVersion: v1
kind: Pod
metadata: {name: seccomp}
spec:
  restartPolicy: Never
  containers:
  - &c
    name: default
    image: busybox:1.36
    # A namespace of users asks for no capability, so that it is the filter alone that says no.
    command: [sh, -c, "echo $(grep Seccomp: /proc/self/status) $(unshare -U echo may unshare 2>/dev/null || echo may not)"]
  - {<<: *c, name: runtime-default, securityContext: {seccompProfile: {type: RuntimeDefault}}}
  - {<<: *c, name: no-new-privileges, securityContext: {allowPrivilegeEscalation: false, runAsUser: 1000}}
  - {<<: *c, name: unconfined, securityContext: {seccompProfile: {type: Unconfined}}}
  - {<<: *c, name: privileged, securityContext: {privileged: true, seccompProfile: {type: RuntimeDefault}}}
  # The default profile opens up what a capability is for.
  - {<<: *c, name: admin, securityContext: {capabilities: {add: [SYS_ADMIN]}}}
`
	const confined, free = "Seccomp: 2 may not\n", "Seccomp: 0 may unshare\n"
	for _, runtime := range []string{"crun", "runc"} {
		t.Run(runtime, func(t *testing.T) {
			if _, err := exec.LookPath(runtime); err != nil {
				t.Skip("needs " + runtime)
			}
			d := start(t, "--oci-runtime", runtime)
			d.apply(pods)
			d.podUntil("seccomp", "has ended", ended)
			for container, want := range map[string]string{
				"default": confined, "runtime-default": confined, "no-new-privileges": confined,
				"unconfined": free, "privileged": free, "admin": "Seccomp: 2 may unshare\n",
			} {
				if got := d.jobctl("logs", "seccomp", "-c", container); got != want {
					t.Errorf("%s: %q, want %q", container, got, want)
				}
			}
		})
	}
	t.Run("not by default, and in exec", func(t *testing.T) {
		d := start(t, "--seccomp-default=false")
		d.apply(
			strings.ReplaceAll(
				strings.ReplaceAll(pods, "/dev/null || echo may not)", "/dev/null || echo may not); sleep 1000"),
				"restartPolicy: Never", "restartPolicy: Never\n  terminationGracePeriodSeconds: 0",
			),
		)
		d.podUntil("seccomp", "runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
		for container, want := range map[string]string{"default": "0", "runtime-default": "2"} {
			if got := d.jobctl("exec", "seccomp", "-c", container, "--", "grep", "Seccomp:", "/proc/self/status"); got != "Seccomp:\t"+want+"\n" {
				t.Errorf("exec in %s: %q, want %s", container, got, want)
			}
		}
	})
}
