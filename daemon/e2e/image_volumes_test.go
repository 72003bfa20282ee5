package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/testdata/images"
	"github.com/jobd/jobd/testdata/registry"
)

// dataImage is an image of two layers, with no command.
func dataImage(t *testing.T) v1.Image {
	t.Helper()
	lower, upper := images.NewTree(), images.NewTree()
	lower.Busybox("/bin")
	lower.Text("/data/a", 0o644, "from below\n")
	lower.Text("/data/b", 0o644, "hidden\n")
	upper.Text("/data/b", 0o644, "from above\n")
	upper.Text("/file", 0o644, "a file\n")
	image, err := images.FromLayers(v1.Config{}, nil, lower, upper)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// mountsBelow returns what is mounted below a directory.
func mountsBelow(t *testing.T, dir string) (out []string) {
	t.Helper()
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		if at := strings.Fields(line)[4]; strings.HasPrefix(at, dir+"/") {
			out = append(out, at)
		}
	}
	return out
}

// A pod mounts an image (KEP-4639), which is pulled for it, shown to it for reading only, and kept for as long as the pod
// exists, whatever becomes of the daemon.
func TestImageVolume(t *testing.T) {
	t.Parallel()
	needContainers(t)
	r := registry.Start(t, registry.Options{})
	data, _ := r.Push(t, dataImage(t), "data:1")
	d := start(t)
	d.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  hostUsers: true
  terminationGracePeriodSeconds: 0
  restartPolicy: Always
  containers:
  - name: c
    image: busybox:1.36
    command: [sh, -c]
    args:
    - |
      exec 2>&1
      cat /image/data/a /image/data/b /sub/b
      touch /image/new
      touch /sub/new
      /image/bin/busybox echo it can be executed
      [ -e /again/flag ] && sleep 1000
      touch /again/flag
    volumeMounts:
    - {name: v, mountPath: /image}
    - {name: v, mountPath: /sub, subPath: data}
    - {name: again, mountPath: /again}
  volumes:
  - {name: v, image: {reference: %s}}
  - {name: again, emptyDir: {}}
`, data))
	again := func(p *corev1.Pod) bool {
		s := p.Status.ContainerStatuses
		return len(s) == 1 && s[0].State.Running != nil && s[0].RestartCount == 1
	}
	d.podUntil("p", "has been restarted", again)
	want := "from below\nfrom above\nfrom above\ntouch: /image/new: Read-only file system\n" +
		"touch: /sub/new: Read-only file system\nit can be executed\n"
	for _, previous := range []string{"--previous=false", "--previous=true"} {
		d.eventually("it says what it sees", func() error {
			if got := d.jobctl("logs", "p", previous); got != want {
				return fmt.Errorf("logs %s\n%s\nwant\n%s", previous, got, want)
			}
			return nil
		})
	}
	events := d.jobctl("events", "--for", "pod/p")
	for _, message := range []string{fmt.Sprintf("Pulling image %q", data), fmt.Sprintf("Successfully pulled image %q in", data)} {
		if !strings.Contains(events, message) {
			t.Errorf("no %q among the events\n%s", message, events)
		}
	}
	if out, err := d.try("jobctl", nil, "image", "remove", data); err == nil || !strings.Contains(out, "volumes of pods show it") {
		t.Errorf("removal of an image that a volume shows: %v\n%s", err, out)
	}

	d.kill()
	d.serve()
	if got := d.jobctl("exec", "p", "--", "cat", "/image/file"); got != "a file\n" {
		t.Errorf("after a restart of the daemon: %q", got)
	}
	d.jobctl("delete", "pod", "p")
	d.eventually("nothing is left of the volume", func() error {
		if left := mountsBelow(t, filepath.Join(d.root, "pods")); len(left) > 0 {
			return fmt.Errorf("mounted: %v", left)
		}
		if out, err := d.try("jobctl", nil, "image", "remove", data); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// The container waits for the image of a volume as for its own.
func TestImageVolumeThatCannotBeHad(t *testing.T) {
	t.Parallel()
	needContainers(t)
	r := registry.Start(t, registry.Options{})
	data, _ := r.Push(t, dataImage(t), "data:1")
	missing := strings.Replace(data, "data:1", "missing:1", 1)
	d := start(t)
	for name, volume := range map[string]string{
		"missing": fmt.Sprintf(`{mount: {}, image: {reference: %q}}`, missing),
		"never":   fmt.Sprintf(`{mount: {}, image: {reference: %q, pullPolicy: Never}}`, missing),
		"subpath": fmt.Sprintf(`{mount: {subPath: nowhere}, image: {reference: %q}}`, data),
		"file":    fmt.Sprintf(`{mount: {subPath: file}, image: {reference: %q}}`, data),
	} {
		_, image, _ := strings.Cut(strings.TrimSuffix(volume, "}"), "image: ")
		mount, _, _ := strings.Cut(strings.TrimPrefix(volume, "{mount: {"), "}")
		if mount != "" {
			mount = ", " + mount
		}
		d.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  hostUsers: true
  terminationGracePeriodSeconds: 0
  containers:
  - {name: c, image: "busybox:1.36", command: [sleep, "1000"], volumeMounts: [{name: v, mountPath: /image%s}]}
  - {name: without, image: "busybox:1.36", command: [sleep, "1000"]}
  volumes:
  - {name: v, image: %s}
`, name, mount, image))
	}
	for name, want := range map[string]struct{ reason, message string }{
		"missing": {"ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q: ErrImagePull: ", missing)},
		"never":   {"ErrImageNeverPull", fmt.Sprintf("Container image %q is not present with pull policy of Never", missing)},
		"subpath": {"CreateContainerConfigError", "failed to prepare subPath for volumeMount \"v\""},
		"file":    {"CreateContainerConfigError", "only directory subpath is supported"},
	} {
		d.podUntil(name, "waits for the volume, with its other container running", func(p *corev1.Pod) bool {
			if len(p.Status.ContainerStatuses) != 2 || p.Status.ContainerStatuses[1].State.Running == nil {
				return false
			}
			w := p.Status.ContainerStatuses[0].State.Waiting
			return w != nil && w.Reason == want.reason && strings.Contains(w.Message, want.message)
		})
	}
	if events := d.jobctl("events", "--for", "pod/missing"); !strings.Contains(events, fmt.Sprintf("Failed to pull image %q", missing)) {
		t.Errorf("events\n%s", events)
	}
}

// A pod mounts what a server exports, in the way of mount.nfs, which a program stands in for here: not every kernel has
// NFS.
func TestNFSVolume(t *testing.T) {
	needContainers(t)
	export, programs := t.TempDir(), t.TempDir()
	script := "#!/bin/sh\ncase $1 in down:*) echo 'mount.nfs: Connection timed out' >&2; exit 32;; esac\n" +
		"mount --bind " + export + " \"$2\" && case \"$4\" in *ro*) mount -o remount,bind,ro \"$2\";; esac\n"
	if err := os.WriteFile(filepath.Join(programs, "mount.nfs"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(export, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	d := start(t)
	pod := func(name, nfs, command string) {
		d.apply(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {restartPolicy: Never, hostUsers: true,
containers: [{name: c, image: "busybox:1.36", command: [sh, -c, %q], volumeMounts: [{name: v, mountPath: /v}]}],
volumes: [{name: v, nfs: %s}]}}`, name, command, nfs))
	}
	pod("writes", "{server: up, path: /export}", "echo data >/v/file")
	d.podUntil("writes", "has succeeded", succeeded)
	if content, err := os.ReadFile(filepath.Join(export, "file")); string(content) != "data\n" {
		t.Errorf("on the server: %q, %v", content, err)
	}
	pod("reads", "{server: up, path: /export, readOnly: true}", "cat /v/file; touch /v/new 2>&1; true")
	d.podUntil("reads", "has succeeded", succeeded)
	if got := d.jobctl("logs", "reads"); got != "data\ntouch: /v/new: Read-only file system\n" {
		t.Errorf("logs %q", got)
	}
	pod("down", "{server: down, path: /export}", "true")
	d.eventually("the event of a server that does not answer", func() error {
		events := d.jobctl("events", "--for", "pod/down")
		if !strings.Contains(events, "FailedMount") || !strings.Contains(events, "Connection timed out") {
			return fmt.Errorf("events:\n%s", events)
		}
		return nil
	})
	d.jobctl("delete", "pods", "--all")
	d.eventually("nothing is mounted any more", func() error {
		if left := mountsBelow(t, filepath.Join(d.state, "pods")); len(left) > 0 {
			return fmt.Errorf("mounted: %v", left)
		}
		return nil
	})
}

// The mode of an emptyDir, and options of a mount.
func TestModeOfAnEmptyDir(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.apply(`
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  restartPolicy: Never
  hostUsers: true
  containers:
  - name: c
    image: busybox:1.36
    command: [sh, -c, "stat -c %a /disk /memory /plain; cp /bin/busybox /disk/b; /disk/b true 2>/dev/null || echo no; grep -c ' /disk .*noexec' /proc/mounts"]
    volumeMounts:
    - {name: disk, mountPath: /disk, bindMountOptions: [noexec, nosuid]}
    - {name: memory, mountPath: /memory}
    - {name: plain, mountPath: /plain}
  volumes:
  - {name: disk, emptyDir: {mode: 0o1777}}
  - {name: memory, emptyDir: {medium: Memory, mode: 0o750}}
  - {name: plain, emptyDir: {}}
`)
	d.podUntil("p", "has ended", ended)
	if got := d.jobctl("logs", "p"); got != "1777\n750\n777\nno\n1\n" {
		t.Errorf("logs %q", got)
	}
}
