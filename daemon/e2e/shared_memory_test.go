package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sharing is a pod whose containers have /dev/shm together, but for one that mounts a volume there, and a pod of one
// container that nobody restarts.
const sharing = `
apiVersion: v1
kind: Pod
metadata: {name: shares}
spec:
  hostUsers: %t
  restartPolicy: OnFailure
  terminationGracePeriodSeconds: 0
  securityContext: {fsGroup: 2000}
  volumes: [{name: own, emptyDir: {medium: Memory, sizeLimit: 1Mi}}]
  initContainers:
  - {name: first, image: "busybox:1.36", command: [sh, -c, "echo by the first >/dev/shm/first"]}
  containers:
  - name: again
    image: busybox:1.36
    securityContext: {runAsUser: 1000, readOnlyRootFilesystem: true}
    command: [sh, -c, "echo by a run >>/dev/shm/again; until test -e /dev/shm/fail; do sleep 0.05; done; rm /dev/shm/fail; exit 1"]
  - {name: waits, image: "busybox:1.36", command: [sleep, "100000"]}
  - {name: own, image: "busybox:1.36", command: [sleep, "100000"], volumeMounts: [{name: own, mountPath: /dev/shm}]}
---
apiVersion: v1
kind: Pod
metadata: {name: alone}
spec:
  hostUsers: %[1]t
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers: [{name: waits, image: "busybox:1.36", command: [sleep, "100000"]}]
`

// The shared memory of a pod is that of all its containers, and outlives each of them and the daemon.
func TestSharedMemory(t *testing.T) {
	t.Parallel()
	for name, hostUsers := range map[string]bool{"users of the host": true, "users of its own": false} {
		t.Run(name, func(t *testing.T) {
			eachRuntime(t, func(t *testing.T, d *daemon) { d.sharesMemory(hostUsers) })
		})
	}
}

func (d *daemon) sharesMemory(hostUsers bool) {
	t := d.t
	d.apply(fmt.Sprintf(sharing, hostUsers))
	for _, name := range []string{"shares", "alone"} {
		d.jobctl("wait", "--for=condition=Ready", "pod/"+name, patiently)
	}
	if got := d.in("shares", "cat /dev/shm/first; stat -c '%a %u:%g' /dev/shm"); got != "by the first\n1777 0:0\n" {
		t.Errorf("what the init container has left, and its place: %q", got)
	}
	for _, name := range []string{"shares", "alone"} {
		got := d.in(name, "grep ' /dev/shm ' /proc/mounts")
		for _, option := range []string{"tmpfs", "nosuid", "nodev", "noexec", "size=65536k"} {
			if !strings.Contains(got, option) {
				t.Errorf("%s has no %s: %s", name, option, got)
			}
		}
	}

	d.kill()
	d.serve()
	d.in("shares", "touch /dev/shm/fail && chown 1000 /dev/shm/fail")
	d.eventually("its first run and its second have written to the same file", func() error {
		out, err := d.try("jobctl", nil, "exec", "shares", "-c", "waits", "--", "cat", "/dev/shm/again")
		if err == nil && out != "by a run\nby a run\n" {
			err = fmt.Errorf("%q", out)
		}
		return err
	})
	if got := d.jobctl("exec", "shares", "-c", "own", "--", "sh", "-c", "ls /dev/shm | wc -l; df -k /dev/shm | grep -c ' 1024 '"); got != "0\n1\n" {
		t.Errorf("where a volume is mounted there is something else: %q", got)
	}

	for pod, want := range map[string]string{"shares": "by the first\n", "alone": "cannot see it\n"} {
		d.jobctl("debug", pod, "-q", "--image=busybox:1.36", "-c", "doctor", "--", "sh", "-c",
			"cat /dev/shm/first 2>/dev/null || echo cannot see it; echo x >/dev/shm/x && sleep 100000")
		d.eventually("a container that was added shares it where there are others", func() error {
			out, err := d.try("jobctl", nil, "logs", pod, "-c", "doctor")
			if err == nil && out != want {
				err = fmt.Errorf("%s: %q", pod, out)
			}
			return err
		})
	}

	pod, err := d.CoreV1().Pods("default").Get(t.Context(), "alone", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// With each mount of the host, all other pods start slower.
	if mounts, _ := os.ReadFile("/proc/self/mountinfo"); strings.Contains(string(mounts), string(pod.UID)+"/shm") {
		t.Error("a mount of the host for a pod of one container that runs once")
	}
	d.jobctl("delete", "pod", "shares", "alone")
	d.eventually("nothing is left of it", func() error {
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err == nil && strings.Contains(string(mounts), d.state+"/pods/") {
			err = fmt.Errorf("a mount is left")
		}
		return err
	})
}
