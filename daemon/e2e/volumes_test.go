package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestHostPathTypesInPods(t *testing.T) {
	t.Parallel()
	d := start(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if err := unix.Mknod(filepath.Join(dir, "block"), unix.S_IFBLK|0o600, int(unix.Mkdev(7, 200))); err != nil {
		t.Fatal(err)
	}
	var volumes, mounts []string
	for i, v := range []struct{ path, kind string }{
		{dir, ""}, {dir, "Directory"}, {dir + "/made/deep", "DirectoryOrCreate"}, {dir + "/file", "File"},
		{dir + "/new", "FileOrCreate"}, {dir + "/socket", "Socket"}, {"/dev/zero", "CharDevice"}, {dir + "/block", "BlockDevice"},
	} {
		volumes = append(volumes, fmt.Sprintf("{name: v%d, hostPath: {path: %s, type: %q}}", i, v.path, v.kind))
		mounts = append(mounts, fmt.Sprintf("{name: v%d, mountPath: /v%d}", i, i))
	}
	pod := func(name, volumes, mounts string) string {
		return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  hostUsers: true # the ids of files of a devtmpfs cannot be mapped
  restartPolicy: Never
  containers:
  - name: c
    image: busybox:1.36
    command: [sh, -c, 'cat /v0/file /v1/file /v3; echo; [ -d /v2 ] && [ -f /v4 ] && [ -S /v5 ] && [ -c /v6 ] && [ -b /v7 ] && echo all; echo written > /v4']
    volumeMounts: [%s]
  volumes: [%s]
---
`, name, mounts, volumes)
	}
	d.apply(pod("types", strings.Join(volumes, ", "), strings.Join(mounts, ", ")) +
		pod("wrong", "{name: v0, hostPath: {path: "+dir+"/file, type: Directory}}", mounts[0]) +
		pod("own", "{name: v0, hostPath: {path: "+d.root+"}}", mounts[0]))
	d.podUntil("types", "has ended", ended)
	if got := d.jobctl("logs", "types"); got != "contentcontentcontent\nall\n" {
		t.Errorf("logs %q", got)
	}
	if content, err := os.ReadFile(dir + "/new"); string(content) != "written\n" {
		t.Errorf("the file that was made: %q, %v", content, err)
	}
	for name, why := range map[string]string{
		"wrong": "hostPath type check failed: " + dir + "/file is not a directory",
		"own":   "hostPath " + d.root + " belongs to jobd itself",
	} {
		d.eventually("the event of "+name, func() error {
			if events := d.jobctl("events", "--for", "pod/"+name); !strings.Contains(events, "FailedMount") || !strings.Contains(events, why) {
				return fmt.Errorf("events:\n%s", events)
			}
			return nil
		})
	}
}

func TestGroupsAndReadOnlyMounts(t *testing.T) {
	t.Parallel()
	d := start(t)
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/below", 0o777); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir+"/below", "tmpfs", 0, "mode=777"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir+"/below", unix.MNT_DETACH)
	d.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: groups}
spec:
  hostUsers: true # with others crun 1.8 makes read-only what is mounted below, too
  restartPolicy: Never
  securityContext: {runAsUser: 1000, runAsGroup: 1001, fsGroup: 2000, fsGroupChangePolicy: OnRootMismatch, supplementalGroups: [3000]}
  containers:
  - name: c
    image: busybox:1.36
    command: [sh, -c]
    args:
    - |
      exec 2>&1
      id -u; id -g; id -G
      touch /disk/x /memory/x && ls -n /disk/x /memory/x | awk '{print $4}'
      touch /ro/x /rro/x /rro/below/x
      touch /ro/below/x && echo below
    volumeMounts:
    - {name: disk, mountPath: /disk}
    - {name: memory, mountPath: /memory}
    - {name: host, mountPath: /ro, readOnly: true}
    - {name: host, mountPath: /rro, readOnly: true, recursiveReadOnly: Enabled}
  volumes:
  - {name: disk, emptyDir: {}}
  - {name: memory, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
  - {name: host, hostPath: {path: %s}}
`, dir))
	p := d.podUntil("groups", "has ended", ended)
	want := `1000
1001
1001 2000 3000
2000
2000
touch: /ro/x: Read-only file system
touch: /rro/x: Read-only file system
touch: /rro/below/x: Read-only file system
below
`
	if got := d.jobctl("logs", "groups"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	for _, m := range p.Status.ContainerStatuses[0].VolumeMounts {
		if r := m.RecursiveReadOnly; (m.MountPath == "/rro") != (r != nil && *r == "Enabled") {
			t.Errorf("the status of %s: %v", m.MountPath, r)
		}
	}
}

func TestSeccompProfilesOfOnesOwn(t *testing.T) {
	t.Parallel()
	d := start(t)
	if err := os.MkdirAll(d.root+"/seccomp/my", 0o755); err != nil {
		t.Fatal(err)
	}
	profile := `{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]}`
	if err := os.WriteFile(d.root+"/seccomp/my/profile.json", []byte(profile), 0o644); err != nil {
		t.Fatal(err)
	}
	pod := `
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  restartPolicy: Never
  securityContext:
    seccompProfile: {type: Localhost, localhostProfile: %s}
    sysctls: [{name: net.ipv4.ip_unprivileged_port_start, value: "80"}]
  containers:
  - {name: c, image: "busybox:1.36", command: [sh, -c, "exec 2>&1; mkdir /x; cat /proc/sys/net/ipv4/ip_unprivileged_port_start"]}
---
`
	d.apply(fmt.Sprintf(pod, "own", "my/profile.json") + fmt.Sprintf(pod, "none", "my/none.json"))
	d.podUntil("own", "has ended", ended)
	if got, want := d.jobctl("logs", "own"), "mkdir: can't create directory '/x': Operation not permitted\n80\n"; got != want {
		t.Errorf("logs %q, want %q", got, want)
	}
	d.eventually("the missing profile is told of", func() error {
		if events := d.jobctl("events", "--for", "pod/none"); !strings.Contains(events, "cannot load seccomp profile") {
			return fmt.Errorf("events:\n%s", events)
		}
		return nil
	})
}

func TestAnEmptyDirOverItsLimitEvicts(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.apply(`
apiVersion: batch/v1
kind: Job
metadata: {name: full}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: c
        image: busybox:1.36
        command: [sh, -c, "trap '' TERM; dd if=/dev/zero of=/v/f bs=1M count=3; while :; do sleep 1; done"]
        volumeMounts: [{name: v, mountPath: /v}]
      volumes: [{name: v, emptyDir: {sizeLimit: 2Mi}}]
  podFailurePolicy:
    rules: [{action: FailJob, onPodConditions: [{type: DisruptionTarget}]}]
`)
	d.failed("full", "PodFailurePolicy")
	p := d.pods("full")[0]
	if want := `Usage of EmptyDir volume "v" exceeds the limit "2Mi". `; p.Status.Phase != "Failed" ||
		p.Status.Reason != "Evicted" || p.Status.Message != want {
		t.Errorf("the pod: %s, %s, %s", p.Status.Phase, p.Status.Reason, p.Status.Message)
	}
	if events := d.jobctl("events", "--for", "pod/"+p.Name); !strings.Contains(events, "Evicted") {
		t.Errorf("events:\n%s", events)
	}
}

// TestTearDownThatCannotBeDone makes the directory of all pods immutable, as somebody on the host might.
func TestTearDownThatCannotBeDone(t *testing.T) {
	t.Parallel()
	d := start(t)
	// A pod that is given no time to end is gone from the API at once, and so are its events.
	d.apply(strings.Replace(onePod("kept", "busybox:1.36", "exec sleep 1000"), "GracePeriodSeconds: 0", "GracePeriodSeconds: 1", 1))
	p := d.podUntil("kept", "runs", runs)
	dir, err := os.Open(filepath.Join(d.root, "pods"))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	flags, err := unix.IoctlGetUint32(int(dir.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		t.Skipf("needs a file system with flags: %v", err)
	}
	set := func(flags uint32) {
		t.Helper()
		if err := unix.IoctlSetPointerInt(int(dir.Fd()), unix.FS_IOC_SETFLAGS, int(flags)); err != nil {
			t.Fatal(err)
		}
	}
	const immutable = 0x10
	set(flags | immutable)
	defer set(flags)
	d.jobctl("delete", "pod", "kept", "--wait=false")
	d.eventually("an event names what cannot be removed", func() error {
		said := d.jobctl("get", "events", "-o", `jsonpath={range .items[?(@.reason=="FailedKillPod")]}{.involvedObject.name}: {.message}{end}`)
		if !strings.HasPrefix(said, "kept: Tear-down has failed ") ||
			!strings.Contains(said, filepath.Join(dir.Name(), string(p.UID))+": operation not permitted") {
			return fmt.Errorf("it says %q", said)
		}
		return nil
	})
	set(flags)
	d.eventually("the pod is gone once that can be removed", func() error {
		_, err := d.CoreV1().Pods("default").Get(t.Context(), "kept", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %v", err)
	})
}
