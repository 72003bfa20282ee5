package e2e

import (
	"fmt"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/testdata/images"
)

// linkedImage has symlinks to nothing where volumes and files of the pod go.
func linkedImage() (images.Image, error) {
	tree := images.NewTree()
	tree.Busybox("/bin")
	for link, to := range map[string]string{
		"/absolute": "/gone/absolute", "/relative": "gone/relative", "/out": "../../../gone/out", "/chain": "link", "/link": "/gone/chain",
		"/file": "/gone/file", "/etc/resolv.conf": "/run/systemd/resolve/stub-resolv.conf", "/etc/hosts": "../gone/hosts",
		"/declared": "/gone/declared", "/log": "/gone/log",
	} {
		tree.Link(link, to)
	}
	config := v1.Config{Volumes: map[string]struct{}{"/declared": {}, "/declared/below": {}}}
	return images.New(tree, config, "docker.io/library/linked:1")
}

// TestVolumesAtLinksToNothing: the directory to which the link leads is made, whatever the OCI runtime does by itself.
func TestVolumesAtLinksToNothing(t *testing.T) {
	t.Parallel()
	const manifest = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {key: value}
---
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  restartPolicy: Never
  hostUsers: %t
  containers:
  - name: c
    image: linked:1
    terminationMessagePath: /log
    securityContext: {readOnlyRootFilesystem: %[2]t}
    command: [sh, -c]
    args:
    - |
      exec 2>&1
      for dir in /absolute /relative/below /out /chain /declared /declared/below
      do echo $dir | tee $dir/file | sed 's/$/:/' && cat $(readlink -f $dir)/file
      done
      cat /file /absolute/settings/key && echo
      ls -ldn /gone | cut -c1-10
      ls -ldn /gone | awk '{print $3 $4}'
      grep -c nameserver /etc/resolv.conf
    volumeMounts:
    - {name: a, mountPath: /absolute}
    - {name: b, mountPath: /relative/below}
    - {name: c, mountPath: /out}
    - {name: d, mountPath: /chain}
    - {name: settings, mountPath: /file, subPath: key}
    - {name: settings, mountPath: /absolute/settings}
  volumes:
  - {name: a, emptyDir: {}}
  - {name: b, emptyDir: {}}
  - {name: c, emptyDir: {}}
  - {name: d, emptyDir: {}}
  - {name: settings, configMap: {name: settings}}
`
	var want strings.Builder
	for _, dir := range []string{"/absolute", "/relative/below", "/out", "/chain", "/declared", "/declared/below"} {
		fmt.Fprintf(&want, "%s:\n%[1]s\n", dir)
	}
	want.WriteString("valuevalue\ndrwxr-xr-x\n00\n1\n")
	eachRuntime(t, func(t *testing.T, d *daemon) {
		d.importImage(linkedImage())
		for name, hostUsers := range map[string]bool{"host-users": true, "own-users": false} {
			d.apply(fmt.Sprintf(manifest, name, hostUsers))
			d.podUntil(name, "has ended", func(p *corev1.Pod) bool {
				return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
			})
			if got := d.jobctl("logs", name); got != want.String() {
				t.Errorf("%s: %s\nwant\n%s", name, got, &want)
			}
		}
	})
}
