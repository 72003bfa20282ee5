package containerd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
)

func TestSecurityOfAContainer(t *testing.T) {
	ociRuntimes(t, func(t *testing.T, r *rig) {
		t.Run("a read-only root", func(t *testing.T) {
			p := pod("u1", "touch /file 2>/dev/null || echo refused; echo m > /dev/termination-log")
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: ptr(true)}
			if status, log := r.run(t, p); log != "refused" || status.Message != "m\n" {
				t.Errorf("got %+v, log %q", status, log)
			}
		})
		t.Run("a user by number", func(t *testing.T) {
			p := pod("u2", "id -u; id -g; touch /file 2>/dev/null || echo refused")
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: ptr(int64(1234)), RunAsGroup: ptr(int64(4321))}
			if _, log := r.run(t, p); log != "1234\n4321\nrefused" {
				t.Errorf("log %q", log)
			}
		})
		t.Run("what it sees of itself", func(t *testing.T) {
			p := pod(
				"u3",
				`hostname; cat /etc/hostname; grep -c . /etc/resolv.conf >/dev/null; grep -c pod-u3 /etc/hosts; ip -o link | grep -c lo; sh -c 'echo $PPID'; grep CapEff /proc/self/status; ls /sys/fs/cgroup | head -n 1 | grep -c .; cat /proc/keys 2>/dev/null | wc -c`,
			)
			status, log := r.run(t, p)
			lines := strings.Split(log, "\n")
			if status.ExitCode != 0 || len(lines) != 8 {
				t.Fatalf("got %+v, log %q", status, log)
			}
			if want := []string{"pod-u3", "pod-u3", "1", "1", "1", "CapEff:\t00000000a80425fb", "1", "0"}; strings.Join(lines, "|") != strings.Join(want, "|") {
				t.Errorf("got %q, want %q", lines, want)
			}
		})
		t.Run("the default seccomp profile", func(t *testing.T) {
			p := pod("u6", "grep Seccomp: /proc/self/status; unshare -U true 2>/dev/null || echo refused")
			p.Spec.SecurityContext = &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
			if _, log := r.run(t, p); log != "Seccomp:\t2\nrefused" {
				t.Errorf("log %q", log)
			}
			filters, _ := os.ReadDir(filepath.Join(r.config.State, "seccomp"))
			if crun := takesFilters(r.oci.Version); crun != (len(filters) == 1) {
				t.Errorf("%d filters were compiled and kept", len(filters))
			}
		})
		t.Run("a seccomp profile that even its program cannot run under", func(t *testing.T) {
			c := r.container(t, pod("u7", "true"), "main")
			c.Spec.Linux.Seccomp = &specs.LinuxSeccomp{DefaultAction: specs.ActKillProcess}
			r.start(t, c)
			if status := r.wait(t, c.ID); status.ExitCode == 0 {
				t.Errorf("got %+v", status)
			}
		})
		t.Run("a privileged one", func(t *testing.T) {
			p := pod("u4", "mount -t tmpfs none /mnt && ls /dev | grep -c kmsg")
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr(true)}
			if status, log := r.run(t, p, func(s *specs.Spec) { s.Process.Args[2] = "mkdir /mnt; " + s.Process.Args[2] }); status.ExitCode != 0 {
				t.Errorf("got %+v, log %q", status, log)
			}
		})
		t.Run("in the host's network and with its processes", func(t *testing.T) {
			p := pod("u5", "readlink /proc/self/ns/net; readlink /proc/self/ns/pid; ls /sys >/dev/null")
			p.Spec.HostNetwork, p.Spec.HostPID = true, true
			status, log := r.run(t, p)
			network, _ := os.Readlink("/proc/self/ns/net")
			pids, _ := os.Readlink("/proc/self/ns/pid")
			if status.ExitCode != 0 || log != network+"\n"+pids {
				t.Errorf("got %+v, log %q", status, log)
			}
		})
	})
}
