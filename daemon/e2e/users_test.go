package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// account is a user of this machine, who runs jobctl as a person would after a login.
type account struct {
	d             *daemon
	name, home    string
	uid, gid      uint32
	supplementary []uint32
}

// newAccount makes a user of this machine with a home, who is in some groups, until the test ends.
func newAccount(t *testing.T, name string, groups ...string) *account {
	t.Helper()
	run := func(args ...string) {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	base, err := os.MkdirTemp("/var/tmp", "jobd-e2e-home.")
	if err != nil {
		t.Fatal(err)
	}
	a := &account{name: name, home: filepath.Join(base, name)}
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	run("useradd", "--create-home", "--home-dir", a.home, "--user-group", "--groups", strings.Join(groups, ","), name)
	t.Cleanup(func() {
		run("userdel", name)
		if err := os.RemoveAll(base); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(a.home, 0o700); err != nil {
		t.Fatal(err)
	}
	u, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	number := func(s string) uint32 {
		n, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		return uint32(n)
	}
	a.uid, a.gid = number(u.Uid), number(u.Gid)
	for _, g := range groups {
		found, err := user.LookupGroup(g)
		if err != nil {
			t.Fatal(err)
		}
		a.supplementary = append(a.supplementary, number(found.Gid))
	}
	return a
}

// newGroup makes a group of this machine until the test ends.
func newGroup(t *testing.T, name string) string {
	t.Helper()
	if out, err := exec.Command("groupadd", name).CombinedOutput(); err != nil {
		t.Fatalf("groupadd: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("groupdel", name).CombinedOutput(); err != nil {
			t.Errorf("groupdel: %v\n%s", err, out)
		}
	})
	return name
}

// try runs a program as the user, without a word about which socket it is to take.
func (a *account) try(input string, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(a.d.t.Context(), patience+10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "JOBD_SOCKET=" + a.d.socket(), "HOME=" + a.home, "USER=" + a.name}
	cmd.Dir, cmd.Stdin = a.home, strings.NewReader(input)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: a.uid, Gid: a.gid, Groups: a.supplementary}}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (a *account) jobctl(args ...string) string {
	a.d.t.Helper()
	out, err := a.try("", filepath.Join(bin, "jobctl"), args...)
	if err != nil {
		a.d.t.Fatalf("%s: jobctl %s: %v\n%s", a.name, strings.Join(args, " "), err, out)
	}
	return out
}

// refused runs jobctl, which must fail with some words.
func (a *account) refused(words, input string, args ...string) {
	a.d.t.Helper()
	out, err := a.try(input, filepath.Join(bin, "jobctl"), args...)
	if err == nil || !strings.Contains(out, words) {
		a.d.t.Errorf("%s: jobctl %s: %v, want %q\n%s\n%s", a.name, strings.Join(args, " "), err, words, out, input)
	}
}

// userPod is a pod of busybox with further fields of its spec, of its container and of its metadata.
func userPod(name, spec, container, script string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {restartPolicy: Never, terminationGracePeriodSeconds: 0, %s
containers: [{name: c, image: "busybox:1.36", command: [sh, -c, %q], %s}]}}`, name, spec, script, container)
}

// team are two users of the machine in a group that has namespaces, and one who is not in it.
type team struct {
	*daemon
	alice, bob, carol *account
	shared            string // a directory that may be mounted, where bob has a directory of his own
}

var teams atomic.Int32

func newTeam(t *testing.T, flags ...string) *team {
	t.Helper()
	needContainers(t)
	if _, err := exec.LookPath("useradd"); err != nil {
		t.Skip("needs useradd")
	}
	mark := strconv.Itoa(os.Getpid()) + "n" + strconv.Itoa(int(teams.Add(1))) // several run at once
	lab, other := newGroup(t, "lab"+mark), newGroup(t, "other"+mark)
	x := &team{
		alice: newAccount(t, "alice"+mark, lab, other), bob: newAccount(t, "bob"+mark, lab), carol: newAccount(t, "carol"+mark, other),
	}
	base, err := os.MkdirTemp("/var/tmp", "jobd-e2e-team.")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	x.shared = filepath.Join(base, "shared")
	for _, dir := range []string{"shared", "models", "shared/bob", "shared/bob/open"} {
		if err := errors.Join(os.Mkdir(filepath.Join(base, dir), 0o755), os.Chmod(base, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	private := filepath.Join(x.shared, "bob")
	if err := errors.Join(os.WriteFile(private+"/open/secret", []byte("of bob"), 0o644), os.Chown(private, int(x.bob.uid), int(x.bob.gid)),
		os.Chmod(private, 0o700)); err != nil {
		t.Fatal(err)
	}
	settings := filepath.Join(base, "jobd.yaml")
	const users = "socket-group: root\nusers:\n- {user: %s, host-paths: [%s, \"%s:ro\"], quota: {pods: 4}}\n- group: %s\n"
	if err := os.WriteFile(settings, fmt.Appendf(nil, users,
		x.alice.name, x.shared, filepath.Join(base, "models"), lab), 0o644); err != nil {
		t.Fatal(err)
	}
	x.daemon = start(t, append([]string{"--config", settings}, flags...)...)
	x.alice.d, x.bob.d, x.carol.d = x.daemon, x.daemon, x.daemon
	return x
}

// runs has a pod of alice run, and returns what it writes.
func (x *team) runs(name, spec, container, script string) string {
	x.t.Helper()
	if out, err := x.alice.try(userPod(name, spec, container, script), filepath.Join(bin, "jobctl"), "apply", "-f", "-"); err != nil {
		x.t.Fatalf("%v\n%s", err, out)
	}
	if out, err := x.alice.try("", filepath.Join(bin, "jobctl"), "wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/"+name, patiently); err != nil {
		x.t.Fatalf("%v\n%s\n%s\n%s", err, out, x.jobctl("get", "events", "-A"), x.jobctl("get", "pods", "-A", "-o", "yaml"))
	}
	out := x.alice.jobctl("logs", name)
	x.alice.jobctl("delete", "pod", name, "--now")
	return out
}

// waits applies a pod of alice's whose volumes cannot be set up, for a reason that has some words.
func (x *team) waits(name, words, spec, container string) {
	x.t.Helper()
	if out, err := x.alice.try(userPod(name, spec, container, "cat /h/secret"), filepath.Join(bin, "jobctl"), "apply", "-f", "-"); err != nil {
		x.t.Fatalf("%v\n%s", err, out)
	}
	x.eventually(name+" is told why", func() error {
		out := x.alice.jobctl("get", "events", "--field-selector", "involvedObject.name="+name)
		if !strings.Contains(out, words) {
			return fmt.Errorf("no %q in %s", words, out)
		}
		return nil
	})
	x.alice.jobctl("delete", "pod", name, "--now")
}

// TestUsersOfTheMachine is two people of one machine, who are not root, and one of them tries to be more.
func TestUsersOfTheMachine(t *testing.T) {
	t.Parallel()
	x := newTeam(t)
	alice, bob := x.alice, x.bob
	uid, gid := strconv.Itoa(int(alice.uid)), strconv.Itoa(int(alice.gid))
	groups := gid
	for _, g := range alice.supplementary {
		groups += " " + strconv.Itoa(int(g))
	}

	t.Run("each submits, sees, follows and deletes", func(t *testing.T) {
		if out := alice.jobctl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username} {.status.userInfo.extra}"); out !=
			fmt.Sprintf("unix:%s {\"jobd.dev/namespace\":[%q]}", alice.name, alice.name) {
			t.Errorf("alice is %s", out)
		}
		out := alice.jobctl("submit", "--image", "busybox:1.36", "--", "sh", "-c", "id -u; id -G; echo of alice")
		if !strings.Contains(out, uid+"\n"+groups+"\nof alice\n") {
			t.Errorf("alice's Job says\n%s", out)
		}
		if out := bob.jobctl("get", "jobs"); !strings.Contains(out, "No resources found in "+bob.name) {
			t.Errorf("bob sees %s", out)
		}
		bob.jobctl("create", "job", "mine", "--image", "busybox:1.36", "--", "echo", "of bob")
		bob.jobctl("follow", "jobs/mine")
		if out := x.jobctl("history", "-A"); !strings.Contains(out, "unix:"+alice.name) {
			t.Errorf("the history has no name: %s", out)
		}
		if out := bob.jobctl("why", "jobs/mine"); !strings.Contains(out, "omplete") {
			t.Errorf("why says %s", out)
		}
		bob.jobctl("get", "nodes")
		bob.jobctl("delete", "job", "mine")
		alice.jobctl("delete", "jobs", "--all")
	})

	t.Run("pods run as their user, whatever is in the image", func(t *testing.T) {
		out := x.runs("me", "", "", "id -u; id -g; id -G; grep -E 'NoNewPrivs|CapBnd|CapPrm' /proc/self/status; echo 0 2>/dev/null >/proc/self/loginuid; "+
			"echo login $(cat /proc/self/loginuid)")
		login := uid
		if os.Getenv("JOBD_E2E_USER_NAMESPACES") != "" {
			login = "4294967295" // which the kernel shows where the namespace has no id for whose login it is; one that is not set could be written
		}
		for _, want := range []string{
			uid + "\n" + gid + "\n" + groups + "\n", "login " + login + "\n", "NoNewPrivs:\t1", "CapBnd:\t0000000000000000", "CapPrm:\t0000000000000000",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("it lacks %q:\n%s", want, out)
			}
		}
		home := fmt.Sprintf("volumes: [{name: h, hostPath: {path: %q}}],", alice.home)
		for name, spec := range map[string]string{"shared": home + "hostUsers: true,", "own": home + "hostUsers: false,"} {
			x.runs(name, spec, "volumeMounts: [{name: h, mountPath: /h}]", "echo mine >/h/"+name)
			is, err := os.Stat(filepath.Join(alice.home, name))
			if err != nil {
				t.Fatal(err)
			}
			if s := is.Sys().(*syscall.Stat_t); s.Uid != alice.uid || s.Gid != alice.gid {
				t.Errorf("with the users of %s the file is of %d:%d", name, s.Uid, s.Gid)
			}
		}
		made := filepath.Join(alice.home, "a", "b")
		x.runs("made", fmt.Sprintf("volumes: [{name: h, hostPath: {path: %q, type: DirectoryOrCreate}}],", made),
			"volumeMounts: [{name: h, mountPath: /h, subPath: c/d}]", "touch /h/x")
		if is, err := os.Stat(filepath.Join(made, "c", "d")); err != nil || is.Sys().(*syscall.Stat_t).Uid != alice.uid {
			t.Errorf("the directories that were made: %+v, %v", is, err)
		}
	})

	t.Run("what asks to be somebody else is refused", func(t *testing.T) {
		must := "must be " + uid
		in := func(c string) (string, string) { return "", "securityContext: {" + c + "}" }
		pod := func(c string) (string, string) { return "securityContext: {" + c + "},", "" }
		set := func(spec string) func(string) (string, string) {
			return func(string) (string, string) { return spec, "" }
		}
		const before = `initContainers: [{name: i, image: "busybox:1.36", securityContext: {runAsUser: 0}}],`
		for field, of := range map[string]struct {
			words string
			make  func(string) (string, string)
			text  string
		}{
			"spec.securityContext.runAsUser":                      {must, pod, "runAsUser: 0"},
			"spec.securityContext.runAsGroup":                     {"must be among the groups", pod, "runAsGroup: 0"},
			"spec.securityContext.fsGroup":                        {"must be among the groups", pod, "fsGroup: 0"},
			"spec.securityContext.supplementalGroups[0]":          {"must be among the groups", pod, "supplementalGroups: [0]"},
			"spec.securityContext.supplementalGroupsPolicy":       {"must be Strict", pod, "supplementalGroupsPolicy: Merge"},
			"spec.containers[0].securityContext.runAsUser":        {must, in, "runAsUser: " + strconv.Itoa(int(bob.uid))},
			"spec.containers[0].securityContext.runAsGroup":       {"must be among the groups", in, "runAsGroup: " + strconv.Itoa(int(bob.gid))},
			"spec.containers[0].securityContext.privileged":       {"must be false", in, "privileged: true"},
			".securityContext.allowPrivilegeEscalation":           {"must be false", in, "allowPrivilegeEscalation: true"},
			"spec.containers[0].securityContext.capabilities.add": {"must be empty", in, "capabilities: {add: [CHOWN]}"},
			"spec.hostNetwork":                                    {"must be false", set("hostNetwork: true,"), ""},
			"spec.hostPID":                                        {"must be false", set("hostPID: true,"), ""},
			"spec.hostIPC":                                        {"must be false", set("hostIPC: true,"), ""},
			"spec.initContainers[0].securityContext.runAsUser":    {must, set(before), ""},
			"spec.volumes[0].nfs":                                 {"is mounted by root", set("volumes: [{name: h, nfs: {server: 127.0.0.1, path: /}}],"), ""},
		} {
			spec, container := of.make(of.text)
			manifest := userPod("x", spec, container, "id")
			alice.refused(field+": Forbidden: "+of.words, manifest, "create", "-f", "-")
			template := manifest[strings.Index(manifest, ", spec: ")+2 : len(manifest)-1]
			alice.refused(of.words, "{apiVersion: batch/v1, kind: Job, metadata: {name: x}, spec: {template: {"+template+"}}}", "create", "-f", "-")
			alice.refused(of.words, `{apiVersion: batch/v1, kind: CronJob, metadata: {name: x}, spec: {schedule: "* * * * *", jobTemplate: {spec: {template: {`+
				template+"}}}}}", "create", "-f", "-")
		}
		for _, path := range []string{"/", "/etc", bob.home, alice.home + "/../" + bob.name, filepath.Dir(x.shared), x.state, "/run"} {
			alice.refused("hostPath", userPod("x", fmt.Sprintf("volumes: [{name: h, hostPath: {path: %q}}],", path), "", "id"), "create", "-f", "-")
		}
		alice.refused("must be true", userPod("x", fmt.Sprintf("volumes: [{name: h, hostPath: {path: %q}}],", filepath.Dir(x.shared)+"/models"),
			"volumeMounts: [{name: h, mountPath: /h}]", "id"), "create", "-f", "-")
	})

	t.Run("nobody passes the queue", func(t *testing.T) {
		node := strings.TrimSpace(x.jobctl("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"))
		manifest := userPod("x", "nodeName: "+node+",", "", "id")
		alice.refused("spec.nodeName: Forbidden: must be empty", manifest, "create", "-f", "-")
		alice.refused("spec.template.spec.nodeName: Forbidden: must be empty", templateOf(manifest, false), "create", "-f", "-")
		alice.refused("spec.nodeName: Forbidden: must be empty", jobSetOf(manifest), "create", "-f", "-")
		critical := userPod("x", "priorityClassName: system-node-critical,", "", "id")
		for _, of := range []string{critical, templateOf(critical, false), templateOf(critical, true), jobSetOf(critical)} {
			alice.refused("are only for administrators", of, "create", "-f", "-")
		}
		large := userPod("large", "", "resources: {requests: {cpu: 1k}}", "id")
		if out, err := alice.try(large, filepath.Join(bin, "jobctl"), "create", "-f", "-"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		binding := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "large"}, "target": {"kind": "Node", "name": %q}}`, node)
		alice.refused("wait in the queue", binding, "create", "--raw", "/api/v1/namespaces/"+alice.name+"/pods/large/binding", "-f", "-")
		alice.jobctl("delete", "pod", "large", "--now")
		alice.jobctl("submit", "--detach", "--name", "late", "--image", "busybox:1.36", "--cpu", "1k", "--", "id")
		alice.refused("only an administrator puts one first", "", "prioritize", "jobs/late")
		x.jobctl("prioritize", "jobs/late", "-n", alice.name)
		alice.jobctl("delete", "job", "late")
	})

	t.Run("paths lead nowhere else", func(t *testing.T) {
		mount := "volumeMounts: [{name: h, mountPath: /h}]"
		volume := func(path string) string { return fmt.Sprintf("volumes: [{name: h, hostPath: {path: %q}}],", path) }
		for name, to := range map[string]string{"etc": "/etc", "bobs": bob.home, "up": ".."} {
			if out, err := alice.try("", "ln", "-s", to, name); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			x.waits("link-"+name, "leads out of", volume(filepath.Join(alice.home, name)), mount)
			x.waits("sub-"+name, "not within volume path", volume(alice.home), "volumeMounts: [{name: h, mountPath: /h, subPath: "+name+"}]")
		}
		// Root could pass through the directory that is closed to alice, and what is below is open.
		x.waits("closed", "permission denied", volume(x.shared+"/bob/open"), mount)
		x.waits("closed-sub", "permission denied", volume(x.shared), "volumeMounts: [{name: h, mountPath: /h, subPath: bob/open}]")
		// What the OCI runtime makes of a mount point, it makes as root.
		x.waits("inside", "is in the volume at /h", volume(x.shared)[:len(volume(x.shared))-2]+", {name: e, emptyDir: {}}],",
			"volumeMounts: [{name: h, mountPath: /h}, {name: e, mountPath: /h/bob/new}]")
		x.waits("works", "is in the volume at /h", volume(x.shared), mount+", workingDir: /h/bob/new")
		x.waits("message", "is in the volume at /h", volume(x.shared), mount+", terminationMessagePath: /h/bob/new")
		if _, err := os.Lstat(x.shared + "/bob/new"); err == nil {
			t.Error("root has made something for alice")
		}
		if out := x.runs("looks", volume(x.shared), mount, "cat /h/bob/open/secret; ls /h/bob; touch /h/x; true"); strings.Contains(out, "of bob") ||
			strings.Count(out, "ermission denied") != 3 {
			t.Errorf("alice reads what is bob's: %s", out)
		}
	})

	t.Run("nobody reaches what is others'", func(t *testing.T) {
		if out, err := bob.try(userPod("his", "", "", "sleep 3600"), filepath.Join(bin, "jobctl"), "apply", "-f", "-"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		bob.jobctl("create", "secret", "generic", "his", "--from-literal=a=b")
		bob.jobctl("wait", "--for=condition=Ready", "pod/his", patiently)
		want := strconv.Itoa(int(bob.uid)) + "\nNoNewPrivs:\t1"
		if out := bob.jobctl("exec", "his", "--", "sh", "-c", "id -u; grep NoNewPrivs /proc/self/status"); !strings.HasPrefix(out, want) {
			t.Errorf("exec is as %s", out)
		}
		if out, err := bob.try("", filepath.Join(bin, "jobctl"), "top", "pods"); err != nil && !strings.Contains(out, "not available") {
			t.Errorf("top: %v\n%s", err, out)
		}
		for _, args := range [][]string{
			{"get", "pods", "-n", bob.name}, {"get", "pods", "-A"}, {"get", "pod", "his", "-n", bob.name}, {"logs", "his", "-n", bob.name},
			{"exec", "his", "-n", bob.name, "--", "id"}, {"delete", "pod", "his", "-n", bob.name}, {"get", "secrets", "-n", bob.name},
			{"get", "secrets", "-A"}, {"history", "-n", bob.name}, {"history", "-A"}, {"get", "events", "-A"}, {"get", "jobs", "-n", "default"},
			{"create", "job", "x", "-n", bob.name, "--image", "busybox"}, {"run", "x", "-n", "default", "--image", "busybox:1.36"},
			{"get", "pods", "--as", "root"}, {"get", "pods", "--as", "jobd:uid:0", "--as-group", "jobd:admins"},
			{"get", "pods", "--as", "unix:" + bob.name, "-n", bob.name}, {"get", "pods", "--as", "x", "--as-group", "system:masters"},
			{"label", "namespace", alice.name, "pod-security.kubernetes.io/enforce=privileged", "--overwrite"},
			{"annotate", "namespace", alice.name, "jobd.dev/run-as-"}, {"annotate", "namespace", alice.name, "jobd.dev/allowed-host-paths-"},
			{"delete", "resourcequota", "jobd-user"}, {"delete", "namespace", alice.name}, {"create", "namespace", "x"}, {"create", "token", "default"},
			{"create", "serviceaccount", "x"}, {"create", "rolebinding", "x", "--clusterrole", "cluster-admin", "--user", "unix:" + alice.name},
			{"create", "clusterrolebinding", "x", "--clusterrole", "cluster-admin", "--user", "unix:" + alice.name},
			{"image", "remove", "busybox:1.36"}, {"image", "pull", "busybox:1.36"}, {"image", "tag", "busybox:1.36", "mine:1"}, {"image", "prune"},
			{"df"}, {"kubeconfig"}, {"get", "--raw", "/debug/pprof/heap"}, {"get", "--raw", "/metrics"}, {"get", "--raw", "/jobd/v1/images?op=transfers"},
		} {
			alice.refused("orbidden", "", args...)
		}
		// Which images there are is told to whoever may list nodes, as in the status of a node, and no more of them.
		if out := alice.jobctl("image", "list"); !regexp.MustCompile(`(?m)^NAME +SIZE\n(.*\n)*docker.io/library/busybox:1.36 +[0-9]\S*B$`).MatchString(out) {
			t.Errorf("image list: %s", out)
		}
		out := alice.jobctl("get", "--raw", "/jobd/v1/images")
		if strings.Contains(out, "sha256") || !strings.Contains(out, `"name":"docker.io/library/busybox:1.36"`) {
			t.Errorf("the images: %s", out)
		}
		alice.refused("only an administrator adds and removes them", "", "image", "remove", "busybox:1.36")
		x.carol.refused("the images are told to whoever may list nodes", "", "image", "list")
		x.carol.refused("orbidden", "", "get", "jobs")
		x.carol.refused("orbidden", "", "get", "jobs", "-n", alice.name)
		bob.jobctl("delete", "pod", "his", "--now")
	})

	t.Run("containers for debugging are of the same user", func(t *testing.T) {
		if out, err := alice.try(userPod("long", "", "", "sleep 3600"), filepath.Join(bin, "jobctl"), "apply", "-f", "-"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		alice.jobctl("wait", "--for=condition=Ready", "pod/long", patiently)
		root := filepath.Join(alice.home, "root.yaml")
		if err := errors.Join(os.WriteFile(root, []byte("securityContext: {runAsUser: 0}\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
		alice.refused("orbidden", "", "debug", "long", "--image", "busybox:1.36", "--profile", "sysadmin", "--", "id")
		alice.refused("ephemeralContainers[0].securityContext.runAsUser", "",
			"debug", "long", "--image", "busybox:1.36", "--profile", "baseline", "--custom", root, "--", "id")
		alice.jobctl("debug", "long", "-c", "look", "--image", "busybox:1.36", "--profile", "baseline", "--", "id", "-u")
		x.eventually("the container for debugging has ended", func() error {
			if out, err := alice.try("", filepath.Join(bin, "jobctl"), "logs", "long", "-c", "look"); err != nil || out != uid+"\n" {
				return fmt.Errorf("%v: %s", err, out)
			}
			return nil
		})
		alice.jobctl("delete", "pod", "long", "--now")
	})

	t.Run("a quota holds", func(t *testing.T) {
		for i := range 4 {
			if out, err := alice.try(userPod("few-"+strconv.Itoa(i), "", "", "sleep 3600"), filepath.Join(bin, "jobctl"), "apply", "-f", "-"); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
		alice.refused("exceeded quota: jobd-user", userPod("few-4", "", "", "id"), "create", "-f", "-")
		alice.jobctl("delete", "pods", "--all", "--now")
	})

	t.Run("a namespace is for one user alone", func(t *testing.T) {
		// As it would be for a user who comes after another one of the same name.
		x.jobctl("delete", "namespace", bob.name)
		x.jobctl("create", "namespace", bob.name)
		x.eventually("bob has another namespace", func() error {
			out := bob.jobctl("auth", "whoami", "-o", "jsonpath={.status.userInfo.extra}")
			if want := fmt.Sprintf("%s-%d", bob.name, bob.uid); !strings.Contains(out, want) {
				return fmt.Errorf("%s, want %s", out, want)
			}
			return nil
		})
		bob.jobctl("get", "pods")
	})

	if out := x.output.String(); !strings.Contains(out, "user=unix:"+alice.name) || !strings.Contains(out, fmt.Sprint("uid=", alice.uid)) {
		t.Error("the log has no name of who has changed something")
	}
	if bytes.Contains(x.output.Bytes(), []byte("panic")) {
		t.Error("something has panicked")
	}
}

// TestUserLeavesAGroup is somebody who has planted work that goes on, and is then let in no more.
func TestUserLeavesAGroup(t *testing.T) {
	t.Parallel()
	x := newTeam(t)
	alice := x.alice
	left := alice.supplementary[1]
	secret := filepath.Join(x.shared, "others")
	if err := errors.Join(os.Mkdir(secret, 0o770), os.WriteFile(secret+"/s", []byte("of the group\n"), 0o660),
		os.Chown(secret, 0, int(left)), os.Chown(secret+"/s", 0, int(left)), os.Chmod(secret, 0o770)); err != nil {
		t.Fatal(err)
	}
	volume := fmt.Sprintf("volumes: [{name: h, hostPath: {path: %q}}],", x.shared)
	const mount = "volumeMounts: [{name: h, mountPath: /h}]"
	if out := x.runs("before", volume, mount, "id -G; cat /h/others/s"); !strings.Contains(out, "of the group") {
		t.Fatalf("alice does not see what is the group's: %s", out)
	}
	plant := func(name, spec, mount string) {
		job := strings.Replace(templateOf(userPod(name, spec, mount, "id -G; cat /h/others/s; true"), false), "name: x", "name: "+name, 1)
		job = strings.Replace(job, "spec: {template", "spec: {suspend: true, template", 1)
		if out, err := alice.try(job, filepath.Join(bin, "jobctl"), "create", "-f", "-"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	plant("planted", volume, mount)
	plant("below", fmt.Sprintf("volumes: [{name: h, hostPath: {path: %q}}],", secret), mount)
	plant("as", fmt.Sprintf("securityContext: {runAsGroup: %d}, %s", left, volume), mount)
	for _, group := range []string{"lab", "other"} {
		if out, err := exec.Command("gpasswd", "-d", alice.name, group+strings.TrimPrefix(alice.name, "alice")).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	x.eventually("what was known of her is asked for again", func() error {
		if out := x.jobctl("submit", "-n", alice.name, "--image", "busybox:1.36", "--", "id", "-G"); strings.Contains(out, strconv.Itoa(int(left))) {
			return errors.New(out)
		}
		return nil
	})
	x.jobctl("resume", "-n", alice.name, "jobs/planted", "jobs/below", "jobs/as")
	x.jobctl("wait", "-n", alice.name, "--for=condition=Complete", "job/planted", patiently)
	if out := x.jobctl("logs", "-n", alice.name, "job/planted"); !strings.Contains(out, "ermission denied") ||
		strings.Contains(out, strconv.Itoa(int(left))) {
		t.Errorf("a new pod is in a group that its user has left: %s", out)
	}
	for name, words := range map[string]string{"below": "permission denied", "as": fmt.Sprintf("is not in group %d any more", left)} {
		x.eventually(name+" is told why", func() error {
			if out := x.jobctl("get", "events", "-n", alice.name); !strings.Contains(out, words) {
				return fmt.Errorf("no %q in %s", words, out)
			}
			return nil
		})
	}
}
