package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
)

// sshMachine is the machine of a daemon as somebody sees it who comes there by ssh: an sshd with users of its own, which the host does not
// have.
type sshMachine struct {
	t *testing.T
	d *daemon
	// dir has the files of both sides, and runtime what jobctl keeps while it runs.
	dir, runtime string
	sshd         *exec.Cmd
}

const (
	sshUser  = 7001 // ann, who is in the group of the socket, and bob, who is not
	sshGroup = 7100
)

func needSSH(t *testing.T) {
	t.Helper()
	needContainers(t)
	for _, program := range []string{"ssh", "sshd", "ssh-keygen", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("needs " + program)
		}
	}
}

// startSSH starts an sshd. The client has a configuration with a host "lab" that says more than jobctl needs, as people's have.
func startSSH(t *testing.T, d *daemon) *sshMachine {
	t.Helper()
	m := &sshMachine{t: t, d: d}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	m.runtime, err = os.MkdirTemp("/run", "jobd-ssh.")
	must(err)
	m.dir, err = os.MkdirTemp("/var/tmp", "jobd-ssh.")
	must(err)
	t.Cleanup(func() { must(errors.Join(os.RemoveAll(m.runtime), os.RemoveAll(m.dir))) })
	must(os.Chmod(m.dir, 0o755))
	must(os.Chown(d.socket(), -1, sshGroup))
	write := func(name, content string, mode os.FileMode) {
		t.Helper()
		must(os.WriteFile(filepath.Join(m.dir, name), []byte(content), mode))
	}
	for _, key := range []string{"host", "id", "other"} {
		out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(m.dir, key)).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	address := freePort(t)
	_, port, _ := net.SplitHostPort(address)
	host, err := os.ReadFile(filepath.Join(m.dir, "host.pub"))
	must(err)
	write("known_hosts", "[127.0.0.1]:"+port+" "+string(host), 0o600)
	write("sshd_config", fmt.Sprintf(`Port %s
ListenAddress 127.0.0.1
HostKey %[2]s/host
AuthorizedKeysFile %[2]s/id.pub
StrictModes no
UsePAM no
PidFile none
MaxStartups 100
PasswordAuthentication no
SetEnv PATH=%[2]s/programs:/usr/bin:/bin
Match User carol
  AllowStreamLocalForwarding no
`, port, m.dir), 0o600)
	write("config", fmt.Sprintf(`Host lab stranger bob carol
  HostName 127.0.0.1
  Port %s
  IdentitiesOnly yes
  UserKnownHostsFile %[2]s/known_hosts
  ControlMaster auto
  ControlPath %[2]s/own-%%C
  LocalForward %[2]s/forwarded /nowhere
  RequestTTY force
Host lab
  User ann
Host bob
  User bob
Host carol
  User carol
Host lab bob carol
  IdentityFile %[2]s/id
Host stranger
  User ann
  IdentityFile %[2]s/other
`, port, m.dir), 0o600)
	must(os.Mkdir(filepath.Join(m.dir, "bin"), 0o755))
	ssh, err := exec.LookPath("ssh")
	must(err)
	write("bin/ssh", fmt.Sprintf("#!/bin/sh\nexec %s -F %s/config \"$@\"\n", ssh, m.dir), 0o755)
	write("passwd", fmt.Sprintf("ann:x:%d:%d::%s:/bin/sh\nbob:x:%d:%d::%[3]s:/bin/sh\ncarol:x:%[6]d:%[2]d::%[3]s:/bin/sh\n",
		sshUser, sshUser, m.dir, sshUser+1, sshUser+1, sshUser+2), 0o644)
	write("group", fmt.Sprintf("jobd:x:%d:ann,carol\n", sshGroup), 0o644)
	// All of /etc, since what is mounted on a file is gone when somebody replaces that.
	write("serve.sh", `set -e
cp -a /etc "$1/etc"
for file in passwd group; do
  { cat "$1/$file"; grep -v '^jobd:' /etc/$file; } >"$1/etc/$file"
done
mount --bind "$1/etc" /etc
mkdir -p /run/sshd "$1/programs"
mount --bind "$3" "$1/programs"
exec "$2" -D -f "$1/sshd_config" -E "$1/sshd.log"
`, 0o644)
	sshd, err := exec.LookPath("sshd")
	must(err)
	m.sshd = exec.Command("unshare", "-m", "sh", filepath.Join(m.dir, "serve.sh"), m.dir, sshd, bin)
	m.sshd.Stderr = os.Stderr
	must(m.sshd.Start())
	t.Cleanup(func() {
		m.cut()
		_ = m.sshd.Process.Kill()
		_ = m.sshd.Wait()
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(m.dir, "sshd.log"))
			t.Logf("sshd said:\n%s", log)
		}
	})
	d.eventually("sshd answers", func() error {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err
	})
	return m
}

// command returns a jobctl that goes to the daemon by ssh.
func (m *sshMachine) command(host string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(m.t.Context(), filepath.Join(bin, "jobctl"), args...)
	cmd.Env = append(os.Environ(), "JOBD_SOCKET=ssh://"+host+m.d.socket(), "HOME="+m.dir+"/home", "XDG_CONFIG_HOME=", "KUBECONFIG=",
		"XDG_RUNTIME_DIR="+m.runtime, "PATH="+filepath.Join(m.dir, "bin")+":"+os.Getenv("PATH"))
	return cmd
}

// run runs a command and returns what it prints and its exit code.
func (m *sshMachine) run(host string, input []byte, args ...string) (string, int) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	cmd := m.command(host, args...)
	cmd.Stdin = bytes.NewReader(input)
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		m.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// jobctl runs a command that must succeed.
func (m *sshMachine) jobctl(args ...string) string {
	m.t.Helper()
	out, code := m.run("lab", nil, args...)
	if code != 0 {
		m.t.Fatalf("jobctl %s: %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// in is the same machine in a part of the test.
func (m *sshMachine) in(t *testing.T) *sshMachine {
	part := *m
	part.t = t
	return &part
}

// logins returns how many connections sshd has let in.
func (m *sshMachine) logins() int {
	log, err := os.ReadFile(filepath.Join(m.dir, "sshd.log"))
	if err != nil {
		m.t.Fatal(err)
	}
	return bytes.Count(log, []byte("Accepted publickey"))
}

// cut ends all connections, as a network does that has gone.
func (m *sshMachine) cut() {
	for _, pid := range children(m.sshd.Process.Pid) {
		for _, session := range children(pid) {
			_ = syscall.Kill(session, syscall.SIGKILL)
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

func children(pid int) (pids []int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	for field := range strings.FieldsSeq(string(text)) {
		if child, err := strconv.Atoi(field); err == nil {
			pids = append(pids, child)
		}
	}
	return pids
}

// clients returns the processes of ssh that jobctl has left running.
func (m *sshMachine) clients() (pids []int) {
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		if line, _ := os.ReadFile(path); bytes.Contains(line, []byte("ControlPath="+m.runtime)) && !bytes.Contains(line, []byte("[mux]")) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestOverSSH works on a daemon as from another machine.
func TestOverSSH(t *testing.T) {
	t.Parallel()
	needSSH(t)
	d := start(t, "--network", "none")
	m := startSSH(t, d)

	t.Run("commands share one connection", func(t *testing.T) {
		m := m.in(t)
		var all sync.WaitGroup
		for range 4 { // the first ones at once
			all.Go(func() {
				if out, code := m.run("lab", nil, "get", "namespaces", "-o", "name"); code != 0 || !strings.Contains(out, "namespace/default\n") {
					t.Errorf("%d: %s", code, out)
				}
			})
		}
		all.Wait()
		for range 6 {
			m.jobctl("get", "jobs")
		}
		if n := m.logins(); n != 1 {
			t.Errorf("%d logins", n)
		}
		if pids := m.clients(); len(pids) != 1 {
			t.Errorf("ssh runs as %v", pids)
		}
		if left, _ := filepath.Glob(m.dir + "/own-*"); len(left) > 0 {
			t.Errorf("it uses the user's own shared connection: %v", left)
		}
		if _, err := os.Stat(m.dir + "/forwarded"); err == nil {
			t.Error("it forwards what the user's logins do")
		}
		if who := m.jobctl("auth", "whoami"); !strings.Contains(who, "jobd:uid:"+strconv.Itoa(sshUser)) {
			t.Errorf("the daemon sees %s", who)
		}
	})
	t.Run("submit ends with the code of the Job", func(t *testing.T) {
		m := m.in(t)
		out, code := m.run("lab", nil, "submit", "--image", "busybox:1.36", "--backoff-limit", "0", "--", "sh", "-c", "echo words; exit 3")
		if code != 3 || !strings.Contains(out, "words") {
			t.Errorf("%d: %s", code, out)
		}
		out, code = m.run("lab", []byte(jobOf("from-stdin", "echo more words")), "submit", "-f", "-")
		if code != 0 || !strings.Contains(out, "more words") {
			t.Errorf("%d: %s", code, out)
		}
	})

	d.apply(jobOf("long",
		`i=0; while [ ! -e /tmp/end ]; do i=$((i+1)); echo "line $i of many"; echo "error $i" >&2; sleep 0.05; done; echo "after $i"`))
	pod := d.running("long", 1)[0].Name
	t.Run("exec", func(t *testing.T) {
		m := m.in(t)
		out, code := m.run("lab", []byte("through\n"), "exec", "-i", pod, "--", "sh", "-c", "cat; exit 7")
		if code != 7 || !strings.Contains(out, "through\n") {
			t.Errorf("%d: %s", code, out)
		}
		c := talk(t, onTerminal(t, m.command("lab", "exec", "-it", pod, "--", "sh")))
		c.says("stty size; echo $((6 * 7))\r")
		c.hears("33 77")
		c.hears("42")
		c.says("exit 5\r")
		if code := c.ends(); code != 5 {
			t.Errorf("%d: %s", code, c.output())
		}
	})
	t.Run("cp", func(t *testing.T) {
		m := m.in(t)
		content := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
		if err := os.WriteFile(m.dir+"/file", content, 0o600); err != nil {
			t.Fatal(err)
		}
		m.jobctl("cp", m.dir+"/file", pod+":/tmp/file")
		m.jobctl("cp", pod+":/tmp/file", m.dir+"/back")
		if back, err := os.ReadFile(m.dir + "/back"); err != nil || !bytes.Equal(back, content) {
			t.Errorf("%v, %d bytes", err, len(back))
		}
	})
	t.Run("port-forward", func(t *testing.T) {
		m := m.in(t)
		d.apply(`{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {terminationGracePeriodSeconds: 1, containers: [{name: web, image: "busybox:1.36",
  command: [sh, -c, "mkdir /w; echo I am here >/w/index.html; exec httpd -f -p 127.0.0.1:8080 -h /w"],
  readinessProbe: {exec: {command: [wget, -q, -O, /dev/null, "http://127.0.0.1:8080/"]}, periodSeconds: 1, timeoutSeconds: 60}}]}}`)
		d.jobctl("wait", "--for=condition=Ready", "pod/web", patiently)
		c := talk(t, m.command("lab", "port-forward", "web", ":8080"))
		at := c.forwards()
		for range 3 {
			if got, err := ask(at); err != nil || got != "I am here\n" {
				t.Errorf("%q, %v", got, err)
			}
		}
		c.kill()
	})
	t.Run("dashboard", func(t *testing.T) {
		m := m.in(t)
		c := talk(t, m.command("lab", "dashboard", "--open=false"))
		c.hears("The link works once")
		_, link, _ := strings.Cut(c.output(), "The page is at ")
		link, _, _ = strings.Cut(link, "#")
		answer, err := http.Get(link)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if page, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK || !bytes.Contains(page, []byte("<title>")) {
			t.Errorf("%v, %s: %s", err, answer.Status, page)
		}
		c.kill()
	})
	t.Run("a context is the same", func(t *testing.T) {
		m := m.in(t)
		of := func(args ...string) (string, int) {
			cmd := m.command("lab", args...)
			cmd.Env = append(cmd.Env, "JOBD_SOCKET=")
			out, _ := cmd.CombinedOutput()
			return string(out), cmd.ProcessState.ExitCode()
		}
		must := func(want string, args ...string) {
			t.Helper()
			if out, code := of(args...); code != 0 || !strings.Contains(out, want) {
				t.Errorf("jobctl %s: %d: %s", strings.Join(args, " "), code, out)
			}
		}
		must("context lab added", "context", "add", "lab", "ssh://lab"+d.socket(), "-n", "kube-system")
		must("kube-root-ca.crt", "get", "configmaps", "--context", "lab")
		must("job.batch/long", "get", "jobs", "--context", "lab", "-n", "default", "-o", "name")
		must("busybox", "image", "list", "--context", "lab") // what only jobd has
		must("commands go to ssh://lab", "context", "use", "lab")
		must("*         lab", "context", "list")
		must("job.batch/long", "get", "jobs", "-n", "default", "-o", "name")
		must("removed", "context", "remove", "lab")
		if out, code := of("--context", "lab", "get", "jobs"); code == 0 {
			t.Errorf("the context is still there: %s", out)
		}
	})
	if n := m.logins(); n != 1 {
		t.Errorf("%d logins so far", n)
	}

	t.Run("what is cut off goes on", func(t *testing.T) {
		m := m.in(t)
		logs := talk(t, m.command("lab", "logs", "-f", "jobs/long", "--stream", "stdout"))
		podLogs := talk(t, m.command("lab", "logs", "-f", pod, "--tail=-1", "--timestamps"))
		follow := talk(t, m.command("lab", "follow", "jobs/long", "--progress", "plain"))
		watch := talk(t, m.command("lab", "watch", "jobs/long"))
		wait := talk(t, m.command("lab", "wait", "jobs/long", patiently))
		all := []*conversation{logs, podLogs, follow}
		for _, c := range all {
			c.hears("line 1 of many")
		}
		watch.hears("long")
		for i, cut := range []func(){
			m.cut,
			func() { // ssh itself, which leaves its socket
				for _, pid := range m.clients() {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			},
		} {
			logins := m.logins()
			cut()
			for _, c := range all {
				seen := strings.Count(c.output(), "of many") + 20 // some were on their way
				d.eventually("it goes on", func() error {
					if n := strings.Count(c.output(), "of many"); n < seen {
						return fmt.Errorf("%s: %d lines, not %d, %.2000s", c.cmd, n, seen, c.output())
					}
					return nil
				})
			}
			if m.logins() == logins {
				t.Error("nothing was cut off")
			}
			if n := strings.Count(logs.output(), "the server answers again"); n <= i {
				t.Errorf("the log does not say that it was cut off: %.2000s", logs.output())
			}
		}
		m.jobctl("exec", pod, "--", "touch", "/tmp/end")
		for _, c := range append(all, watch, wait) {
			if code := c.ends(); code != 0 {
				t.Errorf("%s: %d: %s", c.cmd, code, c.output())
			}
		}
		_, after, _ := strings.Cut(logs.output(), "after ")
		last, err := strconv.Atoi(strings.Fields(after)[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			for i := 1; i <= last; i++ {
				if n := strings.Count(c.output(), fmt.Sprintf("line %d of many", i)); n != 1 {
					t.Errorf("%s: line %d is there %d times", c.cmd, i, n)
				}
			}
		}
		if out := logs.output(); strings.Contains(out, "[pod/") || strings.Contains(out, "error 1") || strings.Contains(out, "Z line") {
			t.Errorf("the log has what was not asked for: %.500s", out)
		}
		if !strings.Contains(podLogs.output(), "Z line 1 of many") {
			t.Errorf("the log lacks what was asked for: %.500s", podLogs.output())
		}
		if !strings.Contains(wait.output(), "job.batch/long complete") {
			t.Error(wait.output())
		}
	})
	t.Run("submit outlives a cut", func(t *testing.T) {
		m := m.in(t)
		c := talk(t, m.command("lab", "submit", "--image", "busybox:1.36", "--name", "cut", "--", "sh", "-c",
			"echo begun; while [ ! -e /tmp/end ]; do sleep 0.1; done; echo over; exit 4"))
		c.hears("begun")
		m.cut()
		m.jobctl("exec", d.running("cut", 1)[0].Name, "--", "touch", "/tmp/end")
		if code := c.ends(); code != 4 || strings.Count(c.output(), "begun") != 1 || !strings.Contains(c.output(), "over") {
			t.Errorf("%d: %s", code, c.output())
		}
		d.until("cut", "failed", func(j *batchv1.Job) bool { return condition(j, batchv1.JobFailed) != nil })
	})
	t.Run("an end that cannot be resumed is said", func(t *testing.T) {
		m := m.in(t)
		c := talk(t, m.command("lab", "exec", "-i", "web", "--", "sh", "-c", "echo begun; cat"))
		c.hears("begun")
		m.cut()
		if code := c.ends(); code == 0 {
			t.Errorf("exec has ended well: %s", c.output())
		}
	})
	t.Run("where sockets are not forwarded jobctl passes on", func(t *testing.T) {
		m := m.in(t)
		if out, code := m.run("carol", nil, "auth", "whoami"); code != 0 || !strings.Contains(out, "jobd:uid:"+strconv.Itoa(sshUser+2)) {
			t.Errorf("%d: %s", code, out)
		}
		out, code := m.run("carol", nil, "submit", "--image", "busybox:1.36", "--", "sh", "-c", "echo words; exit 3")
		if code != 3 || !strings.Contains(out, "words") {
			t.Errorf("%d: %s", code, out)
		}
		if out, code = m.run("carol", []byte("through"), "exec", "-i", "web", "--", "sh", "-c", "cat; exit 7"); code != 7 || !strings.Contains(out, "through") {
			t.Errorf("%d: %s", code, out)
		}
		out, code = m.run("lab", nil, "get", "jobs", "--socket", "ssh://carol/run/nosuch.sock")
		if code != 1 || !strings.Contains(out, "does not answer on /run/nosuch.sock of carol") {
			t.Errorf("%d: %s", code, out)
		}
	})
	for name, tc := range map[string]struct {
		address string
		want    []string
	}{
		"a user who may not":             {"ssh://bob" + d.socket(), []string{"permission denied on jobd's socket " + d.socket(), "add bob to the group jobd"}},
		"no socket":                      {"ssh://lab/run/nosuch/jobd.sock", []string{"jobd does not answer on /run/nosuch/jobd.sock of lab", "no such socket"}},
		"the default socket":             {"ssh://lab", []string{"/run/jobd/jobd.sock of lab"}},
		"a key that is not accepted":     {"ssh://stranger", []string{"cannot reach stranger by ssh", "none of the keys", `"ssh stranger" has to work first`}},
		"a host that nobody knows":       {"ssh://nosuch.invalid", []string{"cannot reach nosuch.invalid by ssh", "no host of that name"}},
		"an address with another scheme": {"ssh://lab:port", []string{"invalid port", "ssh://[USER@]HOST[:PORT][/PATH]"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := m.in(t)
			if name == "the default socket" && exists("/run/jobd/jobd.sock") {
				t.Skip("the machine has a jobd")
			}
			out, code := m.run("lab", nil, "get", "jobs", "--socket", tc.address)
			for _, want := range tc.want {
				if code != 1 || !strings.Contains(out, want) {
					t.Errorf("%d: %s", code, out)
				}
			}
		})
	}
	t.Run("who was let in since is let in at once", func(t *testing.T) {
		m := m.in(t)
		groups := filepath.Join(m.dir, "etc/group")
		text, err := os.ReadFile(groups)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(groups, bytes.Replace(text, []byte("ann,carol"), []byte("ann,bob,carol"), 1), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, code := m.run("bob", nil, "get", "jobs"); code != 0 {
			t.Errorf("%d: %s", code, out)
		}
	})
	t.Run("nothing is left", func(t *testing.T) {
		m := m.in(t)
		sockets, _ := filepath.Glob(m.runtime + "/jobctl/*/c")
		for _, control := range sockets {
			_ = exec.Command("ssh", "-F", "/dev/null", "-O", "exit", "-o", "ControlPath="+control, "jobd").Run()
		}
		d.eventually("ssh has ended", func() error {
			if pids := m.clients(); len(pids) > 0 {
				return fmt.Errorf("%v", pids)
			}
			return nil
		})
		_ = filepath.Walk(m.runtime, func(path string, is os.FileInfo, _ error) error {
			if is != nil && !is.IsDir() {
				t.Errorf("%s is left", path)
			}
			return nil
		})
	})
}

// TestOverSSHAsAUser is somebody of a team at another machine, who names no socket but that of administrators.
func TestOverSSHAsAUser(t *testing.T) {
	t.Parallel()
	needSSH(t)
	x := newTeam(t, "--network", "none")
	alice := x.alice
	if out, err := exec.Command("usermod", "-p", "*", alice.name).CombinedOutput(); err != nil { // sshd lets in no account that is locked
		t.Fatalf("%v: %s", err, out)
	}
	m := startSSH(t, x.daemon)
	must := func(want string, args ...string) {
		t.Helper()
		if out, code := m.run(alice.name+"@lab", nil, args...); code != 0 || !strings.Contains(out, want) {
			t.Errorf("jobctl %s: %d: %s", strings.Join(args, " "), code, out)
		}
	}
	uid := strconv.Itoa(int(alice.uid))
	must("unix:"+alice.name, "auth", "whoami")
	must(uid+"\n", "submit", "--image", "busybox:1.36", "--name", "image", "--", "id", "-u")
	must(uid+" "+alice.home+"\n", "submit", "--host", "--name", "command", "--", "sh", "-c", "echo $(id -u) $(pwd)")
	must("job.batch/command\njob.batch/image\n", "get", "jobs", "-o", "name")
	if n := m.logins(); n != 1 {
		t.Errorf("%d logins for four commands", n)
	}
	for namespace, want := range map[string]string{"": "job.batch/image", "default": "orbidden"} {
		args := []string{"context", "add", "machine", "ssh://" + alice.name + "@lab" + x.socket()}
		if namespace != "" {
			args = append(args, "--namespace", namespace)
		}
		of := func(args ...string) string {
			cmd := m.command("lab", args...)
			cmd.Env = append(cmd.Env, "JOBD_SOCKET=")
			out, _ := cmd.CombinedOutput()
			return string(out)
		}
		logins := m.logins()
		if out := of(args...); !strings.Contains(out, "context machine") {
			t.Errorf("%q: %s", args, out)
		}
		if out := of("context", "list"); !strings.Contains(out, "machine") || m.logins() != logins {
			t.Errorf("%d logins: %s", m.logins()-logins, out)
		}
		if out := of("--context", "machine", "get", "jobs", "-o", "name"); !strings.Contains(out, want) {
			t.Errorf("in the context of the namespace %q: %s", namespace, out)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
