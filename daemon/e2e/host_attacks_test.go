package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// hostPod is a pod of the reserved image with further fields of its spec and of its container.
func hostPod(name, spec, container string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {restartPolicy: Never, terminationGracePeriodSeconds: 0, %s
containers: [{name: c, image: jobd.dev/host, command: [sleep, "3600"], %s}]}}`, name, spec, container)
}

// templateOf makes a Job, or a CronJob, of a pod's manifest.
func templateOf(pod string, cron bool) string {
	spec := pod[strings.Index(pod, ", spec: ")+2 : len(pod)-1]
	if cron {
		return `{apiVersion: batch/v1, kind: CronJob, metadata: {name: x}, spec: {schedule: "0 0 1 1 *", jobTemplate: {spec: {template: {` + spec + "}}}}}"
	}
	return "{apiVersion: batch/v1, kind: Job, metadata: {name: x}, spec: {template: {" + spec + "}}}"
}

// jobSetOf makes a JobSet of a pod's manifest.
func jobSetOf(pod string) string {
	spec := pod[strings.Index(pod, ", spec: ")+2 : len(pod)-1]
	return `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: x}, spec: {replicatedJobs: [{name: g, template: {spec: {template: {` +
		spec + "}}}}]}}"
}

// TestHostCommandIsRefused is people who would run commands of this machine as somebody else, or have its files changed by root.
func TestHostCommandIsRefused(t *testing.T) {
	t.Parallel()
	x := newTeam(t, "--listen", "127.0.0.1:0")
	alice, bob := x.alice, x.bob
	alice.jobctl("get", "pods")
	bob.jobctl("get", "pods")
	create := []string{"create", "-f", "-"}

	t.Run("by others than the user", func(t *testing.T) {
		all := []string{hostPod("x", "", ""), templateOf(hostPod("x", "", ""), false), templateOf(hostPod("x", "", ""), true), jobSetOf(hostPod("x", "", ""))}
		for _, manifest := range all {
			for namespace, words := range map[string]string{
				"default": "is not for root unless the setting host-root is on", alice.name: "only they may use it here",
			} {
				x.isRefused(words, manifest, "create", "-n", namespace, "-f", "-")
				x.isRefused("jobd.dev/host", manifest, "--as", "unix:"+alice.name, "--as-group", "jobd:role:submit:"+namespace,
					"create", "-n", namespace, "-f", "-")
				x.isRefused("jobd.dev/host", manifest, "--kubeconfig", x.kubeconfig(), "create", "-n", namespace, "-f", "-")
			}
			bob.refused("orbidden", manifest, "create", "-n", alice.name, "-f", "-")
			x.carol.refused("orbidden", manifest, "create", "-n", "default", "-f", "-")
		}
		config := filepath.Join(t.TempDir(), "kubeconfig")
		x.jobctl("kubeconfig", "--role", "submit", "--namespace", alice.name, "-o", config)
		x.isRefused("only they may use it here", hostPod("x", "", ""), "--kubeconfig", config, "create", "-f", "-")
		x.jobctl("create", "serviceaccount", "robot", "-n", alice.name)
		x.jobctl("create", "rolebinding", "robot", "-n", alice.name, "--clusterrole", "jobd:submit", "--serviceaccount", alice.name+":robot")
		token := strings.TrimSpace(x.jobctl("create", "token", "robot", "-n", alice.name))
		robot := func(input string, args ...string) (string, error) {
			return x.try("jobctl", []byte(input), append([]string{"--kubeconfig", x.tokenConfig(token), "-n", alice.name}, args...)...)
		}
		if out, err := robot("", "get", "pods"); err != nil {
			t.Fatalf("the robot has no rights: %v %s", err, out)
		}
		for _, manifest := range all {
			if out, err := robot(manifest, create...); err == nil || !strings.Contains(out, "only they may use it here") {
				t.Errorf("by a token: %v %s", err, out)
			}
		}
		// Nor does another attempt of a Job get it.
		fails := strings.Replace(templateOf(userPod("fails", "", "", "exit 1"), false), "spec: {", "spec: {backoffLimit: 0, ", 1)
		if out, err := robot(fails, create...); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		alice.jobctl("wait", "--for=condition=Failed", "job/x")
		if out, err := robot("", "retry", "jobs/x", "--image", "jobd.dev/host"); err == nil || !strings.Contains(out, "only they may use it here") {
			t.Errorf("by another attempt: %v %s", err, out)
		}
		if out, err := alice.try(jobSetOf(hostPod("x", "", "")), filepath.Join(bin, "jobctl"), create...); err != nil {
			t.Errorf("a JobSet of the user: %v %s", err, out)
		}
		alice.jobctl("delete", "jobset", "x")
		// Nor does anybody else get into what the user runs, or change it.
		alice.jobctl("submit", "--host", "--detach", "--name", "long", "--", "sleep", "3600")
		pod := alice.runningPod("long")
		nightly := strings.Replace(templateOf(hostPod("x", "", ""), true), "name: x", "name: nightly", 1)
		if out, err := alice.try(nightly, filepath.Join(bin, "jobctl"), create...); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		const inCronJob = "/spec/jobTemplate/spec/template/spec/containers/0"
		for _, args := range [][]string{
			{"exec", pod, "--", "id"}, {"cp", pod + ":/etc/hostname", filepath.Join(t.TempDir(), "x")}, {"port-forward", pod, "0:22"}, {"attach", pod},
			{"patch", "cronjob", "nightly", "--type=json", "-p", `[{"op": "replace", "path": "` + inCronJob + `/command", "value": ["id"]}]`},
			{"patch", "cronjob", "nightly", "--type=json", "-p", `[{"op": "add", "path": "` + inCronJob + `/env", "value": [{"name": "LD_PRELOAD"}]}]`},
			{"create", "job", "now", "--from=cronjob/nightly"},
			// A batch script is an annotation, which the command reads as a file.
			{"annotate", "pod", pod, "jobd.dev/script=id"}, {"label", "pod", pod, "x=y"},
			{"patch", "cronjob", "nightly", "--type=merge", "-p",
				`{"spec": {"jobTemplate": {"spec": {"template": {"metadata": {"annotations": {"jobd.dev/script": "id"}}}}}}}`},
		} {
			if out, err := robot("", args...); err == nil || !strings.Contains(out, "only") {
				t.Errorf("the robot may %s: %v %s", args, err, out)
			}
		}
		alice.jobctl("patch", "cronjob", "nightly", "-p", `{"spec": {"suspend": true}}`)
		alice.jobctl("label", "pod", pod, "x=y")
		x.jobctl("label", "pod", pod, "-n", alice.name, "x=z", "--overwrite")
		alice.refused("orbidden", "", "patch", "pod", pod, "-p", `{"spec": {"containers": [{"name": "sleep", "image": "busybox:1.36"}]}}`)
		alice.jobctl("delete", "jobs,cronjobs", "--all")
		if out, err := alice.try(userPod("image", "", "", "sleep 3600"), filepath.Join(bin, "jobctl"), create...); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		alice.refused("hostNetwork", "", "patch", "pod", "image", "-p", `{"spec": {"containers": [{"name": "c", "image": "jobd.dev/host"}]}}`)
		alice.refused("must be jobd.dev/host in all containers", "", "debug", "image", "--image", "jobd.dev/host", "--profile", "baseline", "--", "id")
		alice.jobctl("delete", "pods", "--all", "--now")
	})

	t.Run("what would have root change the machine's files", func(t *testing.T) {
		empty := "volumes: [{name: e, emptyDir: {}}, {name: h, hostPath: {path: " + alice.home + "}}],"
		mount := func(m string) string { return "volumeMounts: [{" + m + "}]" }
		for i, c := range []struct{ words, spec, container string }{
			{"volumeMounts[0].mountPath", empty, mount("name: e, mountPath: " + bob.home + "/new")},
			{"volumeMounts[0].mountPath", empty, mount("name: e, mountPath: /etc")},
			{"volumeMounts[0].mountPath", empty, mount("name: e, mountPath: /tmp/../etc")},
			{"volumeMounts[0].mountPath", empty, mount("name: e, mountPath: /tmp/below")},
			{"volumeMounts[0].mountPath", empty, mount("name: e, mountPath: /jobd")},
			{"volumeMounts[0].mountPath", empty, mount("name: e, mountPath: /jobd/a/b")},
			{"volumeMounts[0].mountPath", empty, mount("name: e, mountPath: /jobd/../root")},
			{"volumeMounts[0].mountPath", empty, mount("name: h, mountPath: /tmp")},
			{"volumeMounts[0].mountPath", empty, mount("name: e, mountPath: /tmp, subPath: x")},
			{"terminationMessagePath", "", "terminationMessagePath: " + bob.home + "/message"},
			{"hostUsers", "hostUsers: false,", ""}, {"hostPID", "hostPID: true,", ""}, {"hostIPC", "hostIPC: true,", ""},
			{"hostAliases", "hostAliases: [{ip: 1.2.3.4, hostnames: [x]}],", ""},
			{"dnsConfig", "dnsConfig: {nameservers: [1.2.3.4]},", ""},
			{"automountServiceAccountToken", "automountServiceAccountToken: true,", ""},
			{"sysctls", "securityContext: {sysctls: [{name: kernel.shm_rmid_forced, value: \"1\"}]},", ""},
			{"seLinuxOptions", "securityContext: {seLinuxOptions: {type: spc_t}},", ""},
			{"privileged", "", "securityContext: {privileged: true}"},
			{"capabilities.add", "", "securityContext: {capabilities: {add: [DAC_READ_SEARCH]}}"},
			{"allowPrivilegeEscalation", "", "securityContext: {allowPrivilegeEscalation: true}"},
			{"readOnlyRootFilesystem", "", "securityContext: {readOnlyRootFilesystem: true}"}, {"procMount", "", "securityContext: {procMount: Unmasked}"},
			{"runAsUser", "", "securityContext: {runAsUser: 0}"}, {"runAsUser", "securityContext: {runAsUser: " + strconv.Itoa(int(bob.uid)) + "},", ""},
			{"runAsGroup", "", "securityContext: {runAsGroup: 0}"}, {"supplementalGroups", "securityContext: {supplementalGroups: [0]},", ""},
			{"ports", "", "ports: [{containerPort: 80}]"},
			{"must be jobd.dev/host in all containers", "initContainers: [{name: i, image: \"busybox:1.36\"}],", ""},
			{"is no volume", "volumes: [{name: i, image: {reference: jobd.dev/host}}],", ""},
		} {
			manifest := hostPod("x"+strconv.Itoa(i), c.spec, c.container)
			alice.refused(c.words, manifest, create...)
			alice.refused(c.words, templateOf(manifest, i%2 == 0), create...)
			alice.refused(c.words, jobSetOf(manifest), create...)
		}
		for _, image := range []string{"jobd.dev/host:latest", "jobd.dev/host@sha256:" + strings.Repeat("0", 64)} {
			alice.refused("has neither tag nor digest", strings.Replace(hostPod("x", "", ""), "jobd.dev/host", "\""+image+"\"", 1), create...)
		}
	})

	t.Run("symlinks in the own files lead no mount elsewhere", func(t *testing.T) {
		// The pod's /tmp outlives a container of it, and a second container is started over what the first has left there.
		const pod = `{apiVersion: v1, kind: Pod, metadata: {name: twice}, spec: {restartPolicy: OnFailure, containers: [{name: c, image: jobd.dev/host,
command: [sh, -c, "test -e /tmp/again && cat /jobd/e/again && exit; ln -s %s/new /tmp/x; ln -s / /jobd/e/root;
  echo again | tee /tmp/again >/jobd/e/again; exit 1"],
volumeMounts: [{name: e, mountPath: /jobd/e}]}], volumes: [{name: e, emptyDir: {}}]}}`
		if out, err := alice.try(fmt.Sprintf(pod, bob.home), filepath.Join(bin, "jobctl"), create...); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		alice.jobctl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/twice", patiently)
		if out := alice.jobctl("logs", "twice"); out != "again\n" {
			t.Errorf("it says %s", out)
		}
		alice.jobctl("delete", "pod", "twice", "--now")
		if _, err := os.Lstat(filepath.Join(bob.home, "new")); err == nil {
			t.Error("root has made something in bob's home")
		}
		if _, err := os.Stat("/jobd"); err == nil {
			t.Error("root has made /jobd")
		}
	})

	t.Run("who comes after a user of the same number", func(t *testing.T) {
		alice.jobctl("submit", "--host", "--name", "later", "--detach", "--at", "+1h", "--", "id")
		if out, err := exec.Command("usermod", "-l", "mallory"+alice.name[5:], alice.name).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		defer func() {
			if out, err := exec.Command("usermod", "-l", alice.name, "mallory"+alice.name[5:]).CombinedOutput(); err != nil {
				t.Errorf("%v %s", err, out)
			}
		}()
		x.jobctl("annotate", "job", "later", "-n", alice.name, "jobd.dev/start-at-")
		x.jobctl("resume", "jobs/later", "-n", alice.name)
		x.eventually("it has failed", func() error {
			if out := x.jobctl("why", "jobs/later", "-n", alice.name); !strings.Contains(out, "is mallory") {
				return errors.New(out)
			}
			return nil
		})
	})
}

// isRefused runs jobctl as root, which must fail with some words.
func (d *daemon) isRefused(words, input string, args ...string) {
	d.t.Helper()
	if out, err := d.try("jobctl", []byte(input), args...); err == nil || !strings.Contains(out, words) {
		d.t.Errorf("jobctl %q: %v, want %q\n%s\n%s", args, err, words, out, input)
	}
}

// tokenConfig writes a kubeconfig of somebody with a token.
func (d *daemon) tokenConfig(token string) string {
	d.t.Helper()
	raw, err := os.ReadFile(filepath.Join(d.root, "kubeconfig"))
	if err != nil {
		d.t.Fatal(err)
	}
	text := string(raw)
	if i := strings.Index(text, "users:"); i >= 0 {
		text = text[:i] + "users:\n- name: robot\n  user: {token: " + token + "}\n"
	}
	file := filepath.Join(d.t.TempDir(), "kubeconfig")
	config := "robot"
	for line := range strings.Lines(string(raw)) {
		if user, ok := strings.CutPrefix(strings.TrimSpace(line), "user: "); ok && user != "" {
			config = user
		}
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "name: robot", "name: "+config)), 0o600); err != nil {
		d.t.Fatal(err)
	}
	return file
}

// TestHostCommandOfRoot is root, who may not, or may if a setting says so.
func TestHostCommandOfRoot(t *testing.T) {
	t.Parallel()
	d := start(t, "--host-root", "--user-namespaces", "default")
	home, err := os.MkdirTemp("/var/tmp", "jobd-e2e-host.")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(home)
	script := "id -u; pwd; grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status; echo x >made"
	if out := d.jobctl("submit", "--host", "--progress=quiet", "--workdir", home, "--", "sh", "-c", script); out !=
		"0\n"+home+"\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nNoNewPrivs:\t1\n" {
		t.Errorf("root is %s", out)
	}
	if _, err := os.Stat(filepath.Join(home, "made")); err != nil {
		t.Error(err)
	}
	nobody := strings.Replace(hostPod("nobody", "securityContext: {runAsUser: 65534, runAsGroup: 65534},", ""), `[sleep, "3600"]`, "[id]", 1)
	d.apply(nobody)
	d.jobctl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/nobody", patiently)
	if out := d.jobctl("logs", "nobody"); !strings.HasPrefix(out, "uid=65534(nobody)") {
		t.Errorf("nobody is %s", out)
	}
	for level, words := range map[string]string{"baseline": "host image", "restricted": "host image"} {
		d.jobctl("create", "namespace", level)
		d.jobctl("label", "namespace", level, "pod-security.kubernetes.io/enforce="+level)
		if out, err := d.try("jobctl", []byte(hostPod("x", "", "")), "create", "-n", level, "-f", "-"); err == nil || !strings.Contains(out, words) {
			t.Errorf("%s: %v %s", level, err, out)
		}
	}
	d.jobctl("create", "namespace", "listed")
	d.jobctl("annotate", "namespace", "listed", "jobd.dev/allowed-host-paths=/srv")
	d.isRefused("shows all paths of the host", hostPod("x", "", ""), "create", "-n", "listed", "-f", "-")
}

// TestHostCommandAndMounts is commands of this machine beside what is mounted and unmounted there.
func TestHostCommandAndMounts(t *testing.T) {
	hostTeam(t, func(t *testing.T, x *team) {
		alice := x.alice
		base, err := os.MkdirTemp("/var/tmp", "jobd-e2e-mounts.")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(base) // which fails where something is mounted
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(os.Chmod(base, 0o755))
		// What systemd makes of / at the start of a machine, this makes of a directory.
		must(unix.Mount(base, base, "", unix.MS_BIND, ""))
		defer unix.Unmount(base, unix.MNT_DETACH)
		must(unix.Mount("", base, "", unix.MS_SHARED, ""))
		for _, dir := range []string{"stick", "fixed", "later"} {
			must(os.Mkdir(filepath.Join(base, dir), 0o755))
		}
		stick, fixed, later := filepath.Join(base, "stick"), filepath.Join(base, "fixed"), filepath.Join(base, "later")
		must(unix.Mount("jobd-e2e-stick", stick, "tmpfs", 0, "mode=777"))
		defer unix.Unmount(stick, unix.MNT_DETACH)
		must(unix.Mount("jobd-e2e-fixed", fixed, "tmpfs", 0, "mode=777"))
		defer unix.Unmount(fixed, unix.MNT_DETACH)
		must(unix.Mount("", fixed, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		must(os.WriteFile(filepath.Join(stick, "file"), []byte("on the stick\n"), 0o644))

		alice.jobctl("submit", "--host", "--detach", "--name", "long", "--", "sh", "-c",
			"cat "+stick+"/file; touch "+fixed+"/x; echo begun; until test -e go; do sleep 0.1; done; "+
				"ls "+stick+"; cat "+later+"/file; grep -c jobd-e2e-stick /proc/self/mountinfo")
		alice.runningPod("long")
		x.eventually("it has begun", func() error {
			if out := alice.jobctl("logs", "jobs/long"); !strings.Contains(out, "begun") {
				return errors.New(out)
			}
			return nil
		})
		must(unix.Unmount(stick, 0)) // nothing keeps it
		must(unix.Mount("jobd-e2e-later", later, "tmpfs", 0, "mode=755"))
		defer unix.Unmount(later, unix.MNT_DETACH)
		must(os.WriteFile(filepath.Join(later, "file"), []byte("came later\n"), 0o644))
		for path := range mountNamespaces(t) {
			content, _ := os.ReadFile(path)
			if strings.Contains(string(content), "jobd-e2e-stick") {
				t.Errorf("the stick is kept busy by %s", path)
			}
		}
		must(os.WriteFile(filepath.Join(alice.home, "go"), nil, 0o644))
		out, _ := alice.try("", filepath.Join(bin, "jobctl"), "follow", "jobs/long", "--progress=quiet")
		for _, want := range []string{"on the stick\n", "Read-only file system", "came later\n0\n"} {
			if !strings.Contains(out, want) {
				t.Errorf("it lacks %q: %s", want, out)
			}
		}
		alice.jobctl("delete", "jobs", "--all")
	})
}

// mountNamespaces returns the lists of mounts of all processes.
func mountNamespaces(t *testing.T) map[string]bool {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, path := range all {
		found[path] = true
	}
	return found
}

// TestHostCommandWithDevices gives a command of this machine the devices that it asks for, and nothing else that a file of them says.
func TestHostCommandWithDevices(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ran := filepath.Join(dir, "ran")
	const offer = `{"cdiVersion": "0.6.0", "kind": "example.com/gpu", "containerEdits": {"env": ["CARDS=all"],
  "mounts": [{"hostPath": "/etc/hostname", "containerPath": "/usr/lib/libcards.so", "options": ["ro", "bind"]}],
  "hooks": [{"hookName": "createContainer", "path": "/usr/bin/touch", "args": ["touch", %q]}]},
"devices": [{"name": "0", "containerEdits": {"deviceNodes": [
  {"path": "/dev/card0", "type": "c", "major": 1, "minor": 5, "permissions": "rw", "fileMode": 438}]}}]}`
	if err := os.WriteFile(filepath.Join(dir, "gpu.json"), fmt.Appendf(nil, offer, ran), 0o644); err != nil {
		t.Fatal(err)
	}
	hostTeam(t, func(t *testing.T, x *team) {
		if _, err := os.Stat("/usr/lib/libcards.so"); err == nil {
			t.Fatal("there is such a library")
		}
		pod := strings.Replace(hostPod("card", "", `resources: {limits: {example.com/gpu: 1}}`), `[sleep, "3600"]`,
			`[sh, -c, "echo $CARDS; head -c1 /dev/card0 | od -An -tu1; ls /usr/lib/libcards.so"]`, 1)
		if out, err := x.alice.try(pod, filepath.Join(bin, "jobctl"), "create", "-f", "-"); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		x.alice.jobctl("wait", "--for=jsonpath={.status.phase}=Failed", "pod/card", patiently)
		if out := x.alice.jobctl("logs", "card"); !strings.Contains(out, "all\n   0\n") || !strings.Contains(out, "No such file") {
			t.Errorf("it says %s", out)
		}
		for _, path := range []string{ran, "/usr/lib/libcards.so", "/dev/card0"} {
			if _, err := os.Lstat(path); err == nil {
				t.Errorf("the host has %s", path)
			}
		}
	}, "--cdi-spec-dirs", dir)
}

// TestAsMeHere runs an image with the files of whoever submits it.
func TestAsMeHere(t *testing.T) {
	t.Parallel()
	x := newTeam(t)
	alice := x.alice
	want := fmt.Sprintf("%d\n%d\n%s\n", alice.uid, alice.gid, alice.home)
	out := alice.jobctl("submit", "--progress=quiet", "--as-me", "--here", "busybox:1.36", "--", "sh", "-c", "id -u; id -g; pwd; echo x >made")
	if out != want {
		t.Errorf("alice is %s", out)
	}
	if out, err := os.ReadFile(filepath.Join(alice.home, "made")); err != nil || string(out) != "x\n" {
		t.Errorf("%s, %v", out, err)
	}
	if out := x.jobctl("submit", "--progress=quiet", "--as-me", "--image", "busybox:1.36", "--", "id", "-u"); out != "0\n" {
		t.Errorf("root is %s", out)
	}
}
