package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/testdata/images"
)

// declaringImage declares two volumes, with a file in one of them.
func declaringImage() (images.Image, error) {
	tree := images.NewTree()
	tree.Busybox("/bin")
	tree.Text("/data/seed", 0o644, "seed\n")
	config := v1.Config{Volumes: map[string]struct{}{"/data": {}, "/mounted": {}}}
	return images.New(tree, config, "docker.io/library/declaring:1")
}

// Each attempt of a container has the volumes that its image declares (VOLUME of a Dockerfile) as new, beside its root, which
// may be read-only; they outlive the daemon, and nothing is left of them.
func TestVolumesThatAnImageDeclares(t *testing.T) {
	t.Parallel()
	needContainers(t)
	d := start(t)
	d.importImage(declaringImage())
	d.apply(`
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  terminationGracePeriodSeconds: 0
  restartPolicy: Always
  containers:
  - name: c
    image: declaring:1
    imagePullPolicy: Never
    securityContext: {readOnlyRootFilesystem: true}
    command: [sh, -c]
    args:
    - |
      exec 2>&1
      cat /data/*
      rm /data/seed && echo written >/data/new && ls /data
      touch /new
      [ -e /mounted/flag ] && sleep 1000
      touch /mounted/flag
    volumeMounts: [{name: v, mountPath: /mounted}]
  volumes: [{name: v, emptyDir: {}}]
`)
	d.podUntil("p", "has been restarted", func(p *corev1.Pod) bool {
		s := p.Status.ContainerStatuses
		return len(s) == 1 && s[0].State.Running != nil && s[0].RestartCount == 1
	})
	for _, previous := range []string{"--previous=false", "--previous=true"} {
		want := "seed\nnew\ntouch: /new: Read-only file system\n"
		if got := d.jobctl("logs", "p", previous); got != want {
			t.Errorf("logs %s\n%s\nwant\n%s", previous, got, want)
		}
	}
	declared := filepath.Join(d.root, "pods", "*", "volumes", "declared", "*", "0")
	if dirs, _ := filepath.Glob(declared); len(dirs) != 1 || !strings.HasSuffix(dirs[0], "/c.1/0") {
		t.Errorf("the directories of the host: %v", dirs)
	}
	d.kill()
	d.serve()
	if got := d.jobctl("exec", "p", "--", "cat", "/data/new"); got != "written\n" {
		t.Errorf("after a restart of the daemon: %q", got)
	}
	d.jobctl("delete", "pod", "p")
	d.eventually("nothing is left of the volumes", func() error {
		if left, _ := filepath.Glob(filepath.Join(d.root, "pods", "*")); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	})
}
