package e2e

import (
	"fmt"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/jobd/jobd/testdata/images"
)

// Images and pods put whatever they like where the daemon reads files of theirs.
func TestWhatIsNoPlainFileIsNotOpened(t *testing.T) {
	t.Parallel()
	d := start(t)
	image := func(name, user string, with func(*images.Tree)) string {
		tree := images.NewTree()
		tree.Busybox("/bin")
		with(tree)
		d.importImage(images.New(tree, v1.Config{Env: []string{"PATH=/bin"}, User: user}, name))
		return name
	}
	waits := func(pod, reason, message string) {
		t.Helper()
		d.eventually("pod "+pod+" says what is wrong", func() error {
			status := "{.status.containerStatuses[0].state.waiting.reason}: {.status.containerStatuses[0].state.waiting.message}"
			got, err := d.try("jobctl", nil, "get", "pod", pod, "-o", "jsonpath="+status)
			if err != nil || !strings.HasPrefix(got, reason+": ") || !strings.Contains(got, message) {
				return fmt.Errorf("%q, %w", got, err)
			}
			return nil
		})
	}
	fifo := image("docker.io/hostile/fifo:1", "", func(tree *images.Tree) { tree.FIFO("/etc/passwd") })
	linked := image("docker.io/hostile/linked:1", "app", func(tree *images.Tree) {
		tree.Text("/usr/users", 0o644, "app:x:77:78::/:/bin/sh\n")
		tree.Link("/etc/passwd", "/usr/users")
	})

	// As many pods as are worked on at a time, and more: they must not keep others from starting.
	var manifests []string
	for i := range 20 {
		manifests = append(manifests, onePod(fmt.Sprintf("fifo-%d", i), fifo, "true"))
	}
	d.apply(strings.Join(manifests, "\n---\n"))
	waits("fifo-0", "CreateContainerError", "etc/passwd is no plain file")
	d.apply(onePod("linked", linked, "id -u; id -g"))
	d.podUntil("linked", "has succeeded", succeeded)
	if got := d.jobctl("logs", "linked"); got != "77\n78\n" {
		t.Errorf("an absolute symlink of the image: %q", got)
	}

	for what, command := range map[string]string{"device": "mknod /v/vars c 10 999", "pipe": "mkfifo /v/vars"} {
		d.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  hostUsers: true # others make no devices
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  volumes: [{name: v, emptyDir: {}}]
  initContainers:
  - name: i
    image: busybox:1.36
    command: [sh, -c, %q]
    volumeMounts: [{name: v, mountPath: /v}]
  containers:
  - name: c
    image: busybox:1.36
    env: [{name: A, valueFrom: {fileKeyRef: {volumeName: v, path: vars, key: A}}}]
`, what, command))
		waits(what, "CreateContainerConfigError", "vars is no plain file")
	}
}
