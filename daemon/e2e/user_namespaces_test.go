package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// withUsers is a waiting pod with users of its own (PodSpec.HostUsers) and a volume of each kind.
const withUsers = `
apiVersion: v1
kind: ConfigMap
metadata: {name: config}
data: {key: value}
---
apiVersion: v1
kind: Secret
metadata: {name: secret}
stringData: {key: value}
---
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  hostUsers: false
  restartPolicy: OnFailure
  terminationGracePeriodSeconds: 0
  securityContext: {fsGroup: 2000, supplementalGroups: [3000], sysctls: [{name: net.ipv4.ip_unprivileged_port_start, value: "80"}]}
  volumes:
  - {name: empty, emptyDir: {}}
  - {name: memory, emptyDir: {medium: Memory}}
  - {name: config, configMap: {name: config}}
  - {name: secret, secret: {secretName: secret, defaultMode: 0440}}
  - {name: fields, downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}
  - {name: host, hostPath: {path: %s, type: Directory}}
  - {name: file, hostPath: {path: %[2]s/file, type: File}}
  initContainers:
  - name: init
    image: busybox:1.36
    command: [sh, -c, "mkdir /empty/sub && chown 5:6 /empty/sub && grep -q '^ *0 [1-9]' /proc/self/uid_map"]
    volumeMounts: [{name: empty, mountPath: /empty}]
  containers:
  - name: waits
    image: busybox:1.36
    command: [sleep, "1000"]
    securityContext: {capabilities: {add: [NET_ADMIN, SYS_ADMIN]}}
    volumeMounts:
    - {name: empty, mountPath: /empty}
    - {name: memory, mountPath: /memory}
    - {name: config, mountPath: /config}
    - {name: secret, mountPath: /secret}
    - {name: fields, mountPath: /fields}
    - {name: host, mountPath: /host}
    - {name: file, mountPath: /file}
    - {name: empty, mountPath: /sub, subPath: sub}
  - {name: other, image: "busybox:1.36", command: [sleep, "1000"], securityContext: {runAsUser: 1000}}
`

// in runs a command in the container of a pod that waits; it must succeed.
func (d *daemon) in(pod, command string) string {
	d.t.Helper()
	return d.jobctl("exec", pod, "-c", "waits", "--", "sh", "-c", command)
}

func TestUserNamespaces(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, d *daemon) {
		host := t.TempDir()
		for name, owner := range map[string]int{"root": 0, "user": 1000, "file": 0} {
			path := filepath.Join(host, name)
			if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(path, owner, owner); err != nil {
				t.Fatal(err)
			}
		}
		null, err := os.Stat("/dev/null")
		if err != nil {
			t.Fatal(err)
		}
		d.apply(fmt.Sprintf(withUsers, "a", host))
		d.apply(fmt.Sprintf(withUsers, "b", host))
		for _, name := range []string{"a", "b"} {
			d.jobctl("wait", "--for=condition=Ready", "pod/"+name, patiently)
		}

		maps := map[string]string{}
		for _, name := range []string{"a", "b"} {
			users, groups := d.in(name, "cat /proc/self/uid_map"), d.in(name, "cat /proc/self/gid_map")
			var inside, first, size int
			if _, err := fmt.Sscan(users, &inside, &first, &size); err != nil || users != groups || inside != 0 || first < 65536 || size != 65536 {
				t.Errorf("%s has the users %q and the groups %q", name, users, groups)
			}
			maps[users] = name
			if other := d.jobctl("exec", name, "-c", "other", "--", "cat", "/proc/self/uid_map"); other != users {
				t.Errorf("%s has other users in its second container: %q and %q", name, users, other)
			}
			if got := d.jobctl("exec", name, "-c", "other", "--", "id", "-u"); got != "1000\n" {
				t.Errorf("user %q", got)
			}
		}
		if len(maps) != 2 {
			t.Errorf("both pods have the same users: %v", maps)
		}

		t.Run("owners", func(t *testing.T) {
			for path, want := range map[string]string{
				"/": "0:0", "/bin/busybox": "0:0", "/tmp": "0:0", "/proc/1": "0:0", "/dev/pts": "0:0", "/dev/shm": "0:0",
				"/empty": "0:2000", "/memory": "0:2000", "/sub": "5:6", "/config/..data/key": "0:2000", "/secret/..data/key": "0:2000",
				"/fields/..data/name": "0:2000", "/host": "0:0", "/host/root": "0:0", "/host/user": "1000:1000", "/file": "0:0",
				"/etc/hosts": "0:0", "/etc/hostname": "0:0", "/etc/resolv.conf": "0:0", "/dev/termination-log": "0:0",
				"/var/run/secrets/kubernetes.io/serviceaccount/..data/token": "0:2000",
			} {
				if got := strings.TrimSpace(d.in("a", "stat -c %u:%g "+path)); got != want {
					t.Errorf("%s belongs to %s, want %s", path, got, want)
				}
			}
			d.in("a", "cat /host/root /host/user /file /secret/key && echo new >/host/new && chown 7:8 /host/new && "+
				"echo new >/memory/new && echo new >/etc/hosts && echo x >/new && chown 9 /new /bin/busybox && id | grep -q 2000")
			info, err := os.Stat(filepath.Join(host, "new"))
			if err != nil {
				t.Fatal(err)
			}
			if got := ownerOf(info); got != "7:8" {
				t.Errorf("what it has made on the host belongs to %s", got)
			}
		})
		t.Run("it rules over its own network and nothing of the host", func(t *testing.T) {
			d.in(
				"a",
				"ip link set lo down && ip link set lo up && hostname | grep -q ^a && mount -t tmpfs none /mnt 2>&1 || mkdir -p "+
					"/mnt && mount -t tmpfs none /mnt",
			)
			if got := strings.TrimSpace(d.in("a", "cat /proc/sys/net/ipv4/ip_unprivileged_port_start")); got != "80" {
				t.Errorf("the sysctl is %s", got)
			}
			for what, try := range map[string]string{
				"make a device":             "mknod /dev/mem c 1 1 || mknod /empty/disk b 254 0",
				"mount the disk":            "mount -t ext4 /dev/vda /mnt",
				"mount the kernel's files":  "mount -t debugfs none /mnt || mount -t tracefs none /mnt || mount -t bpf none /mnt",
				"reboot":                    "echo b >/proc/sysrq-trigger",
				"catch others' crashes":     "mount -o remount,rw /proc/sys; echo '|/bin/sh' >/proc/sys/kernel/core_pattern",
				"take the host's processes": "echo 1 >/proc/sys/kernel/pid_max",
				"spare itself":              "echo -1000 >/proc/self/oom_score_adj",
				"spoil /dev/null":           "chmod 0 /dev/zero || chown 0 /dev/zero",
				"become another pod's user": "setpriv --reuid 70000 true 2>/dev/null || su -s /bin/true 70000",
				"read the kernel's log":     "dmesg",
			} {
				if out, err := d.try("jobctl", nil, "exec", "a", "-c", "waits", "--", "sh", "-c", try); err == nil {
					t.Errorf("it could %s: %s", what, out)
				}
			}
			if now, err := os.Stat("/dev/null"); err != nil || now.Mode() != null.Mode() || ownerOf(now) != ownerOf(null) {
				t.Errorf("/dev/null of the host is %v of %s, was %v of %s; %v", now.Mode(), ownerOf(now), null.Mode(), ownerOf(null), err)
			}
		})
		t.Run("what goes in and out", func(t *testing.T) {
			d.in("a", "echo out >/dev/stdout; echo err >/dev/stderr; cat /dev/stdin")
			if out, err := d.try("jobctl", []byte("given"), "exec", "-i", "a", "-c", "waits", "--", "cat", "/dev/stdin"); err != nil || out != "given" {
				t.Errorf("%q, %v", out, err)
			}
			d.jobctl("cp", filepath.Join(host, "root"), "a:/tmp/copied", "-c", "waits")
			d.in("a", "test -O /tmp/copied && grep -q root /tmp/copied")
		})
		t.Run("after a kill and a restart", func(t *testing.T) {
			before := d.in("a", "cat /proc/self/uid_map")
			d.kill()
			d.serve()
			d.jobctl("exec", "a", "-c", "waits", "--", "kill", "-9", "1") // of no effect: it is the first process
			d.apply(strings.ReplaceAll(fmt.Sprintf(withUsers, "c", host), "OnFailure", "Never"))
			d.jobctl("wait", "--for=condition=Ready", "pod/c", patiently)
			after, third := d.in("a", "cat /proc/self/uid_map"), d.in("c", "cat /proc/self/uid_map")
			if before != after || maps[third] != "" {
				t.Errorf("the first has %q, then %q; the third has %q, the others %v", before, after, third, maps)
			}
		})
		t.Run("gone without a trace", func(t *testing.T) {
			d.jobctl("delete", "pods", "--all", "--grace-period=0", "--force")
			d.eventually("their ranges are free", func() error {
				if left, _ := filepath.Glob(filepath.Join(d.state, "userns", "*")); len(left) > 0 {
					return fmt.Errorf("left: %v", left)
				}
				return nil
			})
		})
	})
}

func ownerOf(info os.FileInfo) string {
	is := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d:%d", is.Uid, is.Gid)
}

// A pod waits, and says why, while there are no free users for it.
func TestUserNamespacesRunOut(t *testing.T) {
	t.Parallel()
	d := start(t, "--user-namespaces", "default", "--user-namespace-range", "2130706432:131072")
	sleeper := func(name, more string) string {
		return fmt.Sprintf(`
---
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 0%s
  containers: [{name: waits, image: "busybox:1.36", command: [sleep, "1000"]}]
`, name, more)
	}
	d.apply(sleeper("a", "") + sleeper("b", ""))
	for _, name := range []string{"a", "b"} {
		d.jobctl("wait", "--for=condition=Ready", "pod/"+name, patiently)
	}
	d.apply(sleeper("c", "") + sleeper("host", "\n  hostUsers: true") + sleeper("network", "\n  hostNetwork: true"))
	for _, name := range []string{"host", "network"} {
		d.jobctl("wait", "--for=condition=Ready", "pod/"+name, patiently)
		if got := strings.Fields(d.in(name, "cat /proc/self/uid_map")); got[1] != "0" {
			t.Errorf("%s has the users %s", name, got)
		}
	}
	d.eventually("the third one says why it waits", func() error {
		events, err := d.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=c"})
		for _, e := range events.Items {
			if e.Reason == "FailedCreatePodSandBox" && strings.Contains(e.Message, "all 2 ranges of the ids 2130706432:131072") {
				return nil
			}
		}
		return fmt.Errorf("%v, %w", events.Items, err)
	})
	d.jobctl("delete", "pod", "a", "--grace-period=0", "--force")
	d.jobctl("wait", "--for=condition=Ready", "pod/c", patiently)
}

// What a pod's own users cannot do is refused, with the reason.
func TestUserNamespacesRefuse(t *testing.T) {
	t.Parallel()
	d := start(t)
	pod := func(name, spec, container string) string {
		return fmt.Sprintf(`
---
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  hostUsers: false
  restartPolicy: Never%s
  containers: [{name: waits, image: "busybox:1.36", command: [sleep, "1000"]%s}]
`, name, spec, container)
	}
	d.apply(pod("user", "", ", securityContext: {runAsUser: 65536}") +
		pod("group", "\n  securityContext: {fsGroup: 70000}", "") +
		pod("proc", "\n  volumes: [{name: v, hostPath: {path: /proc}}]", ", volumeMounts: [{name: v, mountPath: /v}]"))
	for name, want := range map[string]string{
		"user": "user 65536 is beyond the 65536", "group": "group 70000 is beyond the 65536",
		"proc": "/proc is on a file system of type proc",
	} {
		d.eventually("pod "+name+" says why it does not run", func() error {
			events, err := d.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
			if err != nil {
				return err
			}
			said := []string{}
			for _, e := range events.Items {
				said = append(said, e.Message)
				if e.Type == corev1.EventTypeWarning && strings.Contains(e.Message, want) {
					return nil
				}
			}
			return fmt.Errorf("%q", said)
		})
	}
}

// The processes of a pod that share a PID namespace do so with the pod's own users.
func TestUserNamespacesWithSharedProcesses(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, d *daemon) {
		d.apply(`
apiVersion: v1
kind: Pod
metadata: {name: shared}
spec:
  hostUsers: false
  terminationGracePeriodSeconds: 0
  shareProcessNamespace: true
  containers:
  - {name: waits, image: "busybox:1.36", command: [sleep, "1000"], securityContext: {capabilities: {add: [SYS_PTRACE]}}}
  - {name: other, image: "busybox:1.36", command: [sleep, "2000"]}
`)
		d.jobctl("wait", "--for=condition=Ready", "pod/shared", patiently)
		d.in("shared", "grep -q 65536 /proc/1/uid_map && ps | grep -q 'sleep [2]000' && test -z \"$(ls /proc/1/root/)\" && "+
			"! readlink /proc/1/fd/0 /proc/1/fd/1 /proc/1/fd/2")
		d.jobctl("exec", "shared", "-c", "waits", "--", "sh", "-c", "set -- $(ps -o pid,args | grep 'sleep [2]000') && kill $1")
		d.eventually("the other is started again, there too", func() error {
			_, err := d.try("jobctl", nil, "wait", "--for=jsonpath={.status.containerStatuses[0].restartCount}=1", "pod/shared", "--timeout=1s")
			return err
		})
		d.eventually("it is seen", func() error {
			_, err := d.try("jobctl", nil, "exec", "shared", "-c", "waits", "--", "sh", "-c", "ps | grep 'sleep [2]000'")
			return err
		})
	})
}
