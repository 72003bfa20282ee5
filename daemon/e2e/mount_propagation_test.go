package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// How mounts that are made later propagate between the host and a running container (VolumeMount.MountPropagation).
func TestMountPropagation(t *testing.T) {
	d := start(t)
	dir, err := os.MkdirTemp("/var/tmp", "jobd-e2e-mounts.")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Unmount(filepath.Join(dir, "of-pod"), unix.MNT_DETACH)
		_ = unix.Unmount(filepath.Join(dir, "of-host"), unix.MNT_DETACH)
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Mount("none", dir, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", dir, "", unix.MS_SHARED, ""); err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"of-host", "of-pod"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	d.apply(strings.ReplaceAll(`
apiVersion: v1
kind: Pod
metadata: {name: mounts}
spec:
  hostUsers: true # with others nothing spreads to the host
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  volumes: [{name: v, hostPath: {path: DIR}}]
  containers:
  - name: both
    image: busybox:1.36
    securityContext: {privileged: true}
    command: [sh, -c, "mount -t tmpfs none /v/of-pod && touch /v/of-pod/x && exec sleep 1000"]
    volumeMounts: [{name: v, mountPath: /v, mountPropagation: Bidirectional}]
  - {name: in, image: "busybox:1.36", command: [sleep, "1000"], volumeMounts: [{name: v, mountPath: /v, mountPropagation: HostToContainer}]}
  - {name: none, image: "busybox:1.36", command: [sleep, "1000"], volumeMounts: [{name: v, mountPath: /v}]}
`, "DIR", dir))
	d.podUntil("mounts", "runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	d.eventually("a mount of the pod is the host's too", func() error {
		_, err := os.Stat(filepath.Join(dir, "of-pod/x"))
		return err
	})
	if err := unix.Mount("none", filepath.Join(dir, "of-host"), "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "of-host/y"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for container, want := range map[string]string{"both": "y\n", "in": "y\n", "none": ""} {
		if got := d.jobctl("exec", "mounts", "-c", container, "--", "ls", "/v/of-host"); got != want {
			t.Errorf("%s sees %q of the host's mount, want %q", container, got, want)
		}
	}
	if got := d.jobctl("exec", "mounts", "-c", "in", "--", "ls", "/v/of-pod"); got != "x\n" {
		t.Errorf("the container that sees the host's mounts sees %q of the other one's", got)
	}
}
