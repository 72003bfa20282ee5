package e2e

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/testdata/images"
)

// attacker builds the program that makes the attempts, if there is a compiler, and returns its path.
func attacker(t *testing.T) string {
	t.Helper()
	needContainers(t)
	path := filepath.Join(bin, "attacker")
	if _, err := exec.LookPath("go"); err != nil {
		if _, err := os.Stat(path); err != nil {
			t.Skip("needs Go to build the program of attempts")
		}
		return path
	}
	if out, err := buildAttacker(); err != nil {
		t.Fatalf("build the program of attempts: %v\n%s", err, out)
	}
	return path
}

var buildAttacker = sync.OnceValues(func() ([]byte, error) {
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", filepath.Join(bin, "attacker"), "github.com/jobd/jobd/testdata/attacker")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // its image has no libraries
	return build.CombinedOutput()
})

// importAttacker imports an image that contains the program of attempts and a busybox.
func (d *daemon) importAttacker(path string) {
	d.t.Helper()
	program, err := os.ReadFile(path)
	if err != nil {
		d.t.Fatal(err)
	}
	tree := images.NewTree()
	tree.Busybox("/bin")
	tree.Text("/attacker", 0o755, string(program))
	tree.Text("/itself", 0o755, "#!/proc/self/exe\n")
	d.importImage(images.New(tree, v1.Config{Env: []string{"PATH=/bin"}}, "docker.io/hostile/attacker:1"))
}

func attackerPod(name, more string, command ...string) string {
	return fmt.Sprintf(`
---
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: "docker.io/hostile/attacker:1", command: [%s]%s}]
`, name, strings.Join(command, ", "), more)
}

// attemptsOf lists the attempts that the program makes.
func attemptsOf(t *testing.T, path string, flags ...string) []string {
	t.Helper()
	out, err := exec.Command(path, append(flags, "-names")...).Output()
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(names)
	return names
}

// attemptLine matches the line that the program prints for an attempt.
var attemptLine = regexp.MustCompile(`(?m)^(held|BROKEN|UNCLEAR) ([^:\n]+)`)

// TestAttemptsFromWithin makes every attempt of testdata/attacker in containers that ask for nothing special, as root
// and as another user, with the host's users and with users of their own, both as a container's command and by exec.
func TestAttemptsFromWithin(t *testing.T) {
	t.Parallel()
	path := attacker(t)
	want := attemptsOf(t, path)
	eachRuntime(t, func(t *testing.T, d *daemon) {
		d.importAttacker(path)
		users := map[string]string{"root": "", "other": ", securityContext: {runAsUser: 1000, runAsGroup: 1000}"}
		kinds := []string{}
		for user, more := range users {
			for kind, spec := range map[string]string{user: "spec:\n", user + "-of-its-own": "spec:\n  hostUsers: false\n"} {
				kinds = append(kinds, kind)
				d.apply(strings.ReplaceAll(attackerPod("run-"+kind, more, "/attacker")+attackerPod("exec-"+kind, more, "/attacker", "sleep"),
					"spec:\n", spec))
			}
		}
		check := func(t *testing.T, said string) {
			t.Helper()
			var made []string
			for _, m := range attemptLine.FindAllStringSubmatch(said, -1) {
				made = append(made, m[2])
			}
			if slices.Sort(made); !slices.Equal(made, want) {
				t.Errorf("it made %d attempts of %d", len(made), len(want))
			}
			for line := range strings.Lines(said) {
				if !strings.HasPrefix(line, "held ") {
					t.Error(strings.TrimSpace(line))
				}
			}
		}
		for _, kind := range kinds {
			t.Run("run as "+kind, func(t *testing.T) {
				d.podUntil("run-"+kind, "has ended", ended)
				check(t, d.jobctl("logs", "run-"+kind))
			})
			t.Run("exec as "+kind, func(t *testing.T) {
				d.podUntil("exec-"+kind, "runs", runs)
				said, _ := d.try("jobctl", nil, "exec", "exec-"+kind, "--", "/attacker")
				check(t, said)
			})
		}
	})
}

// TestAttemptsOfAPrivilegedContainer proves that the attempts are real: they get through where they may.
func TestAttemptsOfAPrivilegedContainer(t *testing.T) {
	t.Parallel()
	path := attacker(t)
	want := attemptsOf(t, path, "-privileged")
	d := start(t)
	d.importAttacker(path)
	manifest := attackerPod("privileged", ", securityContext: {privileged: true}", "/attacker", "-privileged")
	d.apply(strings.Replace(manifest, "spec:\n", "spec:\n  hostUsers: true\n", 1)) // with users of its own they would be held
	d.podUntil("privileged", "has ended", ended)
	said := d.jobctl("logs", "privileged")
	if got := len(attemptLine.FindAllString(said, -1)); got != len(want) {
		t.Errorf("it made %d attempts of %d", got, len(want))
	}
	for line := range strings.Lines(said) {
		if !strings.HasPrefix(line, "BROKEN ") {
			t.Error(strings.TrimSpace(line))
		}
	}
}

// TestProgramsOfTheHostStay has a container wait for the OCI runtime that joins it, in order to overwrite the runtime's
// program (CVE-2019-5736), and has others run the runtime itself as their command.
func TestProgramsOfTheHostStay(t *testing.T) {
	t.Parallel()
	path := attacker(t)
	sums := func(t *testing.T) (all [][sha256.Size]byte) {
		var programs []string
		for _, name := range []string{"crun", "runc"} {
			if found, err := exec.LookPath(name); err == nil {
				programs = append(programs, found)
			}
		}
		for _, name := range append(programs, filepath.Join(bin, "jobd"), filepath.Join(bin, "jobd-shim")) {
			content, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, sha256.Sum256(content))
		}
		return all
	}
	before := sums(t)
	eachRuntime(t, func(t *testing.T, d *daemon) {
		d.importAttacker(path)
		d.apply(attackerPod("lurks", "", "/attacker", "overwrite", "/tmp/stop") +
			attackerPod("itself", "", "/itself", "--version") + attackerPod("itself-by-path", "", "/proc/self/exe", "--version"))
		d.podUntil("lurks", "runs", runs)
		for range 5 {
			_, _ = d.try("jobctl", nil, "exec", "lurks", "--", "/proc/self/exe", "--version")
			_, _ = d.try("jobctl", nil, "exec", "lurks", "--", "/itself")
			d.jobctl("exec", "lurks", "--", "/bin/busybox", "true")
		}
		// On a busy machine it may not have looked while one of them ran. This one ends with the container.
		_, _ = d.try("jobctl", nil, "exec", "lurks", "--", "/bin/busybox", "sh", "-c", "touch /tmp/stop; exec sleep 1000000")
		d.podUntil("lurks", "has ended", ended)
		if said := d.jobctl("logs", "lurks"); strings.Contains(said, "BROKEN") || !strings.HasPrefix(said, "programs seen: ") {
			t.Errorf("it says:\n%s", said)
		}
		d.podUntil("itself", "has ended", ended)
		d.podUntil("itself-by-path", "has ended", ended)
		if !slices.Equal(sums(t), before) {
			t.Error("a program of the host is another one")
		}
	})
}

// TestWorkingDirOfADescriptor starts containers in directories that whoever starts them may have open (CVE-2024-21626).
func TestWorkingDirOfADescriptor(t *testing.T) {
	t.Parallel()
	path := attacker(t)
	eachRuntime(t, func(t *testing.T, d *daemon) {
		d.importAttacker(path)
		mark := filepath.Join(t.TempDir(), "mark")
		if err := os.WriteFile(mark, []byte("the host's own\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		// However deep the directory is, this leads up to the root.
		look := fmt.Sprintf("pwd; cat %s%s; /attacker 'a working directory outside' 'a descriptor that somebody forgot'", strings.Repeat("../", 20), mark)
		var containers []string
		for i := 3; i < 12; i++ {
			for _, dir := range []string{"self/fd", "thread-self/fd"} {
				containers = append(containers, fmt.Sprintf(
					`  - {name: c%d, image: "docker.io/hostile/attacker:1", workingDir: /proc/%s/%d, command: [sh, -c, %q]}`,
					len(containers), dir, i, look))
			}
		}
		d.apply("apiVersion: v1\nkind: Pod\nmetadata: {name: inside}\nspec:\n  restartPolicy: Never\n" +
			"  terminationGracePeriodSeconds: 0\n  containers:\n" + strings.Join(containers, "\n"))
		p := d.podUntil("inside", "has ended", ended)
		for _, s := range p.Status.ContainerStatuses {
			said := d.jobctl("logs", "inside", "-c", s.Name)
			if strings.Contains(said, "the host's own") || strings.Contains(said, "BROKEN") || strings.Contains(said, "UNCLEAR") {
				t.Errorf("%s: %+v\n%s", s.Name, s.State.Terminated, said)
			}
		}
	})
}

// TestDoubleForks has a container leave behind processes that have left its session, with a PID namespace of its own
// and in the host's.
func TestDoubleForks(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, d *daemon) {
		mark := "7" + strings.TrimPrefix(filepath.Base(d.root), "jobd-e2e.")
		mark = strings.Map(func(r rune) rune {
			if r < '0' || r > '9' {
				return '1'
			}
			return r
		}, mark)
		for _, more := range []string{"", "hostPID: true, "} {
			name := fmt.Sprintf("forks-%d", len(more))
			d.apply(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {%srestartPolicy: Never, terminationGracePeriodSeconds: 0,
				containers: [{name: c, image: "busybox:1.36", command: [sh, -c, %q]}]}}`, name, more,
				"for i in 1 2 3 4 5; do (setsid sh -c 'trap \"\" TERM HUP; (sleep "+mark+"; :) & sleep "+mark+"; :' >/dev/null 2>&1 &) & done; wait"))
			d.podUntil(name, "has ended", ended)
			d.noProcess("sleep\x00"+mark, "of pod "+name)
		}
	})
}

// endedOrStuck reports whether a pod of one container has got as far as it ever will.
func endedOrStuck(p *corev1.Pod) bool {
	s := p.Status.ContainerStatuses
	return ended(p) || len(s) == 1 && s[0].State.Waiting != nil && strings.HasSuffix(s[0].State.Waiting.Reason, "Error")
}

// TestMessagesOfHostilePods lets containers choose where their termination message is, and how long it is.
func TestMessagesOfHostilePods(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, d *daemon) {
		secret := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(secret, []byte("the host's own\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		tree := images.NewTree()
		tree.Busybox("/bin")
		tree.Link("/out", "/")
		tree.Link("/up", strings.Repeat("../", 20))
		tree.Link("/fd", "/proc/self/fd")
		tree.Link("/message", secret)
		tree.Link("/loop", "/loop")
		tree.FIFO("/pipe")
		d.importImage(images.New(tree, v1.Config{Env: []string{"PATH=/bin"}}, "docker.io/hostile/messages:1"))
		paths := []string{
			secret, "/out" + secret, "/up" + secret, "/message", "/" + strings.Repeat("../", 20) + secret, "/fd/3", "/proc/self/fd/7",
			"/proc/1/environ", "/proc/self/exe", "/dev/null", "/dev/zero", "/", "/loop", "/pipe", "/etc", "/sys/kernel/notes",
			"/proc/sysrq-trigger", "/etc/hosts",
		}
		var pods []string
		pod := func(path, command string) {
			pods = append(pods, fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: message-%d}, spec: {restartPolicy: Never,
  terminationGracePeriodSeconds: 0, containers: [{name: c, image: "docker.io/hostile/messages:1", terminationMessagePath: %q, command: [sh, -c, %q]}]}}`,
				len(pods), path, command))
		}
		for _, path := range paths {
			pod(path, "true")
		}
		for _, command := range []string{
			"truncate -s 1G /m", "head -c 50000000 /dev/zero | tr '\\0' x >/m", "rm -f /m; ln -s " + secret + " /m",
			"mv /m /n; ln -s " + secret + " /m", "chmod 0 /m; echo said >/m", "rm -f /m; mkfifo /m; mknod /m b 8 0",
		} {
			pod("/m", command)
		}
		d.apply(strings.Join(pods, "\n---\n"))
		for i := range pods {
			name := fmt.Sprintf("message-%d", i)
			p := d.podUntil(name, "has ended or cannot start", endedOrStuck)
			if end := p.Status.ContainerStatuses[0].State.Terminated; end != nil &&
				(strings.Contains(end.Message, "the host's own") || len(end.Message) > 4096) {
				t.Errorf("%s: it says %d bytes: %.200s", pods[i], len(end.Message), end.Message)
			}
		}
		if content, err := os.ReadFile(secret); err != nil || string(content) != "the host's own\n" {
			t.Errorf("the host's file is %q: %v", content, err)
		}
	})
}

// TestMountPathsOfHostilePods mounts a volume wherever a container may ask for it: nothing outside the container is
// touched.
func TestMountPathsOfHostilePods(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, d *daemon) {
		host := filepath.Join(t.TempDir(), "of-the-host")
		if err := os.Mkdir(host, 0o755); err != nil {
			t.Fatal(err)
		}
		tree := images.NewTree()
		tree.Busybox("/bin")
		tree.Link("/out", "/")
		tree.Link("/up", strings.Repeat("../", 20))
		tree.Link("/fd", "/proc/self/fd")
		tree.Link("/direct", host)
		tree.Link("/loop", "/loop")
		tree.Link("/etc/linked", "/proc/1")
		d.importImage(images.New(tree, v1.Config{Env: []string{"PATH=/bin"}}, "docker.io/hostile/mounts:1"))
		up := strings.Repeat("../", 20)
		paths := []string{
			host, host + "/new", "/out" + host, "/up" + host, "/direct", "/direct/new", "/" + up + host[1:], "/fd/3", "/fd/7/new",
			"/proc/self/fd/3", "/proc/self/cwd", "/proc/self/root" + host, "/proc/1/root" + host, "/proc/thread-self/fd/5", "/proc/self/attr",
			"/proc/self/exe", "/proc/sys/kernel", "/proc/self", "/etc/linked/cwd", "/loop", "/loop/new", "/dev/pts", "/dev/null", "/dev/fd",
			"/sys/fs/cgroup", "/sys/kernel", "/etc/resolv.conf", "/etc", "/bin", "/.", "/..", "relative/" + up + host[1:],
		}
		var pods []string
		for i, path := range paths {
			pods = append(pods, fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: mount-%d}, spec: {restartPolicy: Never,
  terminationGracePeriodSeconds: 0, volumes: [{name: v, emptyDir: {}}],
  containers: [{name: c, image: "docker.io/hostile/mounts:1", volumeMounts: [{name: v, mountPath: %q}], command: [sh, -c, "echo x >%s/mark"]}]}}`,
				i, path, path))
		}
		// Invalid paths are refused; pods with any others must end, or fail to start.
		said, _ := d.try("jobctl", []byte(strings.Join(pods, "\n---\n")), "apply", "-f", "-")
		list, err := d.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items)+strings.Count(said, "is invalid") != len(pods) {
			t.Fatalf("%d pods of %d, %v:\n%s", len(list.Items), len(pods), err, said)
		}
		for _, p := range list.Items {
			d.podUntil(p.Name, "has ended or cannot start", endedOrStuck)
		}
		if left, err := os.ReadDir(host); err != nil || len(left) > 0 {
			t.Errorf("the host's directory has %v: %v", left, err)
		}
		if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), host) {
			t.Errorf("there are mounts on the host's directory: %v", err)
		}
		d.apply(sleeper("after", 1, 0, ""))
		d.complete("after")
	})
}
