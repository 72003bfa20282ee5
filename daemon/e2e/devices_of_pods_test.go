package e2e

import "testing"

// A pod makes devices as in a cluster, unless its namespace enforces a level of Pod Security: a user of the host could use them.
func TestDevicesThatPodsMake(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none")
	d.apply(`
apiVersion: v1
kind: Namespace
metadata: {name: limited, labels: {pod-security.kubernetes.io/enforce: baseline}}
---
apiVersion: v1
kind: Namespace
metadata: {name: free}
`)
	for namespace, want := range map[string]string{"free": "crw-r--r--\n", "limited": "mknod: /tmp/null: Operation not permitted\n"} {
		d.apply(`
apiVersion: batch/v1
kind: Job
metadata: {name: device, namespace: ` + namespace + `}
spec:
  template:
    spec:
      hostUsers: true # others make no devices
      restartPolicy: Never
      containers:
      - {name: c, image: busybox:1.36, command: [sh, -c, "mknod /tmp/null c 1 3 2>&1 && stat -c %A /tmp/null || true"]}
`)
		d.jobctl("wait", "-n", namespace, "--for=finished", "jobs/device")
		if got := d.jobctl("logs", "-n", namespace, "jobs/device"); got != want {
			t.Errorf("%s: %q, want %q", namespace, got, want)
		}
	}
}
