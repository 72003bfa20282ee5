package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// hostTeam is a team with each OCI runtime, whose users run commands of this machine.
func hostTeam(t *testing.T, test func(t *testing.T, x *team), flags ...string) {
	for _, runtime := range []string{"crun", "runc"} {
		t.Run(runtime, func(t *testing.T) {
			if _, err := exec.LookPath(runtime); err != nil {
				t.Skip(err)
			}
			test(t, newTeam(t, append([]string{"--oci-runtime", runtime, "--pod-backoff-base", "10ms"}, flags...)...))
		})
	}
}

// host has a command of this machine run as a user, and returns its output and exit code.
func (a *account) host(flags []string, command ...string) (out string, code int) {
	a.d.t.Helper()
	args := slices.Concat([]string{"submit", "--host", "--progress=quiet"}, flags, []string{"--"}, command)
	out, err := a.try("", filepath.Join(bin, "jobctl"), args...)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		a.d.t.Fatalf("%v\n%s", err, out)
	}
	if exit != nil {
		code = exit.ExitCode()
	}
	return out, code
}

// sh does so with a script for a shell, which has to succeed.
func (a *account) sh(script string, flags ...string) string {
	a.d.t.Helper()
	out, code := a.host(flags, "sh", "-c", script)
	if code != 0 {
		a.d.t.Fatalf("%s: exit code %d:\n%s\n%s", script, code, out, a.d.jobctl("get", "events", "-A"))
	}
	return out
}

// TestHostCommand is people who run commands of this machine, with its files, as themselves.
func TestHostCommand(t *testing.T) {
	t.Parallel()
	hostTeam(t, func(t *testing.T, x *team) {
		alice, bob := x.alice, x.bob
		before := hostAsItIs(t)
		uid, gid := strconv.Itoa(int(alice.uid)), strconv.Itoa(int(alice.gid))
		groups := gid
		for _, g := range alice.supplementary {
			groups += " " + strconv.Itoa(int(g))
		}
		work := filepath.Join(alice.home, "work")
		if err := errors.Join(os.WriteFile(filepath.Join(bob.home, "secret"), []byte("of bob"), 0o600),
			os.Chown(filepath.Join(bob.home, "secret"), int(bob.uid), int(bob.gid)), os.Chmod(bob.home, 0o755),
			os.Mkdir(work, 0o700), os.Chown(work, int(alice.uid), int(alice.gid))); err != nil {
			t.Fatal(err)
		}

		t.Run("it is the caller, here", func(t *testing.T) {
			out := alice.sh(`id -u; id -g; id -G; pwd; echo "$HOME $USER $LOGNAME $PATH $FROM_HERE"; echo mine >made; cat made`, "--env", "FROM_HERE=yes")
			env := fmt.Sprintf("%s %s %s %s yes", alice.home, alice.name, alice.name, os.Getenv("PATH"))
			want := strings.Join([]string{uid, gid, groups, alice.home, env, "mine", ""}, "\n")
			if out != want {
				t.Errorf("it says\n%s\nwant\n%s", out, want)
			}
			var is unix.Stat_t
			if err := unix.Stat(filepath.Join(alice.home, "made"), &is); err != nil || is.Uid != alice.uid || is.Gid != alice.gid {
				t.Errorf("what it made: %+v, %v", is, err)
			}
			if out := alice.sh("pwd; ls", "--workdir", "work"); out != work+"\n" {
				t.Errorf("in a directory below it says %s", out)
			}
			for code, script := range map[int]string{3: "exit 3", 137: "sh -c 'kill -9 $$'; exit $?"} {
				if out, got := alice.host(nil, "sh", "-c", script); got != code {
					t.Errorf("%s: exit code %d\n%s", script, got, out)
				}
			}
		})

		t.Run("it sees no control groups but its own", func(t *testing.T) {
			host, err := os.Readlink("/proc/self/ns/cgroup")
			if err != nil {
				t.Fatal(err)
			}
			own, rest, _ := strings.Cut(alice.sh(`readlink /proc/self/ns/cgroup
cut -d: -f3 /proc/self/cgroup | sort -u
find /sys/fs/cgroup -mindepth 2 -type d 2>&1
find /sys/fs/cgroup -mindepth 1 \( -type f -o -type d \) -writable 2>&1
cat $(find /sys/fs/cgroup -name cgroup.procs) | sort -u | wc -l`), "\n")
			// The directory itself is a tmpfs of crun's own with cgroup v1, of a megabyte of the Job's memory.
			if own == host || !strings.HasPrefix(rest, "/\n") || strings.Count(rest, "\n") != 2 {
				t.Errorf("its namespace is %s, the host's %s; it sees\n%s", own, host, rest)
			}
		})

		t.Run("it may what its user may", func(t *testing.T) {
			setuid := filepath.Join(x.shared, "root-id")
			content, err := os.ReadFile("/usr/bin/id")
			if err := errors.Join(err, os.WriteFile(setuid, content, 0o755), os.Chmod(setuid, 0o4755)); err != nil {
				t.Fatal(err)
			}
			disk := filepath.Join(x.shared, "memory")
			if err := errors.Join(unix.Mknod(disk, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 1))), os.Chmod(disk, 0o666)); err != nil {
				t.Fatal(err)
			}
			tries := []struct{ script, want string }{
				{"cat " + bob.home + "/secret", "Permission denied"}, {"cat /etc/shadow", "Permission denied"}, {"ls /root", "Permission denied"},
				{"ls " + x.root + "/pods", "Permission denied"},
				{"ls " + x.state + "/pods", "Permission denied"}, {"ls " + x.root + "/logs", "Permission denied"},
				{"ls " + x.state + "/host", "Permission denied"}, {"echo >/etc/new", "Permission denied"}, {"touch /new", "Read-only file system"},
				{"touch /usr/bin/new", "Permission denied"}, {"head -c1 " + disk, "Operation not permitted"},
				{"mount -t tmpfs x /mnt", "must be superuser"},
				{"chown root .", "Operation not permitted"}, {"mknod d b 8 0", "Operation not permitted"},
				{"kill -0 " + strconv.Itoa(os.Getpid()), "No such process"},
				{"unshare -m true", "unshare failed"}, {"echo 1 >/proc/sys/kernel/panic", "annot create"},
				{"echo " + strconv.Itoa(int(bob.uid)) + " >/proc/self/loginuid; cat /proc/self/loginuid", uid},
				{"echo 1 >$(find /sys/fs/cgroup -name cgroup.procs | head -1)", "annot create"}, {"ls /proc/1/root/tmp/..data", "No such file"},
				{"python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"" + x.socket() + "\")'", "ermission denied"},
			}
			script := "LC_ALL=C; export LC_ALL; exec 2>&1\n"
			for i, try := range tries {
				script += fmt.Sprintf("echo try %d\n%s\n", i, try.script)
			}
			said := strings.Split(alice.sh(script+"true"), "try ")
			for i, try := range tries {
				if len(said) != len(tries)+1 || !strings.Contains(said[i+1], try.want) {
					t.Errorf("%s: %q, want %s", try.script, said[min(i+1, len(said)-1)], try.want)
				}
			}
			out := alice.sh(setuid + " -u; grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; ls /dev; " +
				"ps -e | wc -l; readlink -f /bin/sh; cat /proc/1/comm")
			if !strings.HasPrefix(out, uid+"\n") || strings.Count(out, "0000000000000000") != 5 || !strings.Contains(out, "NoNewPrivs:\t1\nSeccomp:\t2") {
				t.Errorf("it can do more: %s", out)
			}
			for _, device := range []string{"vda", "sda", "mem", "kmsg", "loop0", "kvm", "fuse", "nvidia0"} {
				if strings.Contains(out, "\n"+device+"\n") {
					t.Errorf("it has the device %s", device)
				}
			}
			// What runs within reaches jobd as its user does.
			program := filepath.Join(alice.home, "jobctl") // what is below /tmp is not seen there
			if content, err := os.ReadFile(filepath.Join(bin, "jobctl")); err != nil || os.WriteFile(program, content, 0o755) != nil {
				t.Fatal(err)
			}
			whoami := program + " auth whoami -o jsonpath={.status.userInfo.username}"
			if out := alice.sh(whoami, "--env", "JOBD_SOCKET="+x.socket()); out != "unix:"+alice.name {
				t.Errorf("within it is %s", out)
			}
		})

		t.Run("attempts on the kernel", func(t *testing.T) {
			program := filepath.Join(alice.home, "attacker")
			content, err := os.ReadFile(attacker(t))
			if err := errors.Join(err, os.WriteFile(program, content, 0o755)); err != nil {
				t.Fatal(err)
			}
			// What it finds in the machine's files its user finds there too; it has the machine's network.
			meant := []string{
				"a device of the container that is not its own", "a mount of the host that can be written", "the host's namespaces", "sockets of others",
			}
			out, _ := alice.host([]string{"--backoff-limit", "0"}, program)
			held := 0
			for line := range strings.Lines(out) {
				_, what, _ := strings.Cut(line, " ")
				switch {
				case strings.HasPrefix(line, "held "):
					held++
				case !slices.ContainsFunc(meant, func(m string) bool { return strings.HasPrefix(what, m) }) && !strings.HasPrefix(line, "job "):
					t.Errorf("it says %s", line)
				}
			}
			if held < 90 {
				t.Errorf("%d attempts have failed: %s", held, out)
			}
		})

		t.Run("what is its own", func(t *testing.T) {
			mine, err := os.CreateTemp("/tmp", "jobd-e2e-host")
			if err != nil {
				t.Fatal(err)
			}
			defer os.Remove(mine.Name())
			name := filepath.Base(mine.Name())
			if out := alice.sh("ls -A /tmp; stat -c %a /tmp; echo x >/tmp/" + name + "-2; ls /tmp; id -u >/dev/shm/x"); out != "1777\n"+name+"-2\n" {
				t.Errorf("/tmp has %s", out)
			}
			if _, err := os.Stat(mine.Name() + "-2"); err == nil {
				t.Error("what it writes to /tmp is in that of the host")
			}
			if out, code := alice.host([]string{"--workdir", "/tmp/x"}, "true"); code == 0 || !strings.Contains(out, "which a Job has of its own") {
				t.Errorf("a working directory in /tmp: %d %s", code, out)
			}
		})

		t.Run("limits, retries, indexes, parameters, logs", func(t *testing.T) {
			out, code := alice.host([]string{"--memory", "64Mi", "--name", "hungry"}, "tail", "/dev/zero")
			if code != 137 || !strings.Contains(alice.jobctl("why", "jobs/hungry"), "memory") {
				t.Errorf("it has all memory: %d %s", code, out)
			}
			alice.sh("echo x >>tries; test $(wc -l <tries) -ge 3", "--backoff-limit", "5")
			out = alice.sh("echo index $JOB_COMPLETION_INDEX of $(id -u)", "--completions", "2", "--indexed", "--name", "array")
			for _, want := range []string{"index 0 of " + uid + "\n", "index 1 of " + uid + "\n"} {
				if !strings.Contains(out, want) {
					t.Errorf("an array says %s, want %s", out, want)
				}
			}
			out, code = alice.host([]string{"--param", "lr=1,2", "--name", "sweep"}, "sh", "-c", "echo lr $(lr) $lr; echo $lr >/dev/termination-log")
			if code != 0 || !strings.Contains(out, "lr 1 1\n") || !strings.Contains(out, "lr 2 2\n") {
				t.Errorf("a sweep: %d %s", code, out)
			}
			if out := alice.jobctl("results", "jobs/sweep", "-o", "csv"); !strings.Contains(out, "2") {
				t.Errorf("results: %s", out)
			}
			if out := alice.jobctl("logs", "jobs/array"); !strings.Contains(out, "index 1") {
				t.Errorf("logs: %s", out)
			}
			if out := alice.jobctl("history"); !strings.Contains(out, "sweep") || !strings.Contains(out, "array") {
				t.Errorf("history: %s", out)
			}
			script := filepath.Join(alice.home, "batch.sh")
			const batch = "#!/bin/sh\n#SBATCH --job-name=batch --output=batch.out\necho $SLURM_JOB_NAME $1; pwd\n"
			if err := os.WriteFile(script, []byte(batch), 0o644); err != nil {
				t.Fatal(err)
			}
			alice.jobctl("submit", "--host", script, "arg")
			if out, err := os.ReadFile(filepath.Join(alice.home, "batch.out")); err != nil || string(out) != "batch arg\n"+alice.home+"\n" {
				t.Errorf("a batch script: %s, %v", out, err)
			}
		})

		t.Run("what cannot run says why, and fails", func(t *testing.T) {
			for name, content := range map[string]string{
				"plain.py": "print(1)\n", "windows.sh": "#!/bin/sh\r\necho\r\n", "gone.py": "#!/opt/none/python\n", "none": "no program\n",
			} {
				mode := os.FileMode(0o755)
				if name == "plain.py" {
					mode = 0o644
				}
				if err := os.WriteFile(filepath.Join(alice.home, name), []byte(content), mode); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Mkdir(filepath.Join(bob.home, "closed"), 0o700); err != nil {
				t.Fatal(err)
			}
			for i, c := range []struct {
				code  int
				words string
				flags []string
				args  []string
			}{
				{127, "command not found along the PATH", nil, []string{"no-such-program"}},
				{127, "the file of that name in this directory is ./gone.py", nil, []string{"gone.py"}},
				{127, "/no/such: no such file or directory", nil, []string{"/no/such"}},
				{126, "is not executable: chmod +x ./plain.py", nil, []string{"./plain.py"}},
				{127, "lines end with CRLF", nil, []string{"./windows.sh"}},
				{127, `first line is not there: \"/opt/none/python\"`, nil, []string{"./gone.py"}},
				{126, "no script with a first line", nil, []string{"./none"}},
				{126, "it is a directory", nil, []string{"./work"}},
				{
					127, "cannot go to the working directory " + alice.home + "/was: no such file or directory",
					[]string{"--workdir", "was"}, []string{"true"},
				},
				{
					126, "cannot go to the working directory " + bob.home + "/closed: permission denied",
					[]string{"--workdir", bob.home + "/closed"}, []string{"true"},
				},
			} {
				name := "wrong-" + strconv.Itoa(i)
				out, code := alice.host(append(c.flags, "--name", name), c.args...)
				plain := strings.ReplaceAll(c.words, `\"`, `"`)
				if code != c.code || !strings.Contains(out, plain) {
					t.Errorf("%q: exit code %d\n%s", c.args, code, out)
				}
				out = strings.ReplaceAll(alice.jobctl("why", "jobs/"+name), "\n", " ")
				if !strings.Contains(out, plain) && !strings.Contains(out, c.words) {
					t.Errorf("why of %q: %s", c.args, out)
				}
			}
		})

		t.Run("exec and cp", func(t *testing.T) {
			alice.jobctl("submit", "--host", "--detach", "--name", "long", "--workdir", "work", "--", "sleep", "3600")
			pod := alice.runningPod("long")
			out := alice.jobctl("exec", pod, "--", "sh", "-c", "id -u; pwd; grep NoNewPrivs /proc/self/status")
			if out != uid+"\n"+work+"\nNoNewPrivs:\t1\n" {
				t.Errorf("exec says %s", out)
			}
			alice.refused("command not found", "", "exec", pod, "--", "no-such-program")
			alice.jobctl("cp", pod+":"+alice.home+"/made", "copied")
			if out, err := os.ReadFile(filepath.Join(alice.home, "copied")); err != nil || string(out) != "mine\n" {
				t.Errorf("cp: %s, %v", out, err)
			}
			if out, err := alice.try("", filepath.Join(bin, "jobctl"), "cp", pod+":"+bob.home+"/secret", "stolen"); err == nil {
				t.Errorf("cp of what is bob's: %s", out)
			}
			alice.refused("orbidden", "", "debug", pod, "--image", "busybox:1.36", "--profile", "baseline", "--", "id")
			alice.jobctl("delete", "job", "long", "--now")
		})

		t.Run("kill -9 loses nothing", func(t *testing.T) {
			alice.jobctl("submit", "--host", "--detach", "--name", "survives", "--", "sh", "-c",
				"echo begun; until test -e go; do sleep 0.1; done; echo went; exit 7")
			alice.runningPod("survives")
			x.kill()
			x.serve()
			if err := os.WriteFile(filepath.Join(alice.home, "go"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			out, err := alice.try("", filepath.Join(bin, "jobctl"), "follow", "jobs/survives", "--progress=quiet")
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 7 || out != "begun\nwent\n" {
				t.Errorf("%v\n%s", err, out)
			}
		})

		t.Run("a group that was left is not given any more", func(t *testing.T) {
			other := "other" + alice.name[len("alice"):]
			alice.jobctl("submit", "--host", "--detach", "--name", "later", "--backoff-limit", "5", "--", "sh", "-c",
				"id -G; until test -e left; do sleep 0.1; done; test $(id -G | wc -w) -lt 3")
			alice.runningPod("later")
			if out, err := exec.Command("gpasswd", "-d", alice.name, other).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if err := os.WriteFile(filepath.Join(alice.home, "left"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			left := gid + " " + strconv.Itoa(int(alice.supplementary[0])) + "\n"
			if out, err := alice.try("", filepath.Join(bin, "jobctl"), "follow", "jobs/later", "--progress=quiet"); err != nil || !strings.Contains(out, left) {
				t.Errorf("%v: %s", err, out)
			}
		})

		alice.jobctl("delete", "jobs", "--all")
		x.eventually("the pods are gone", func() error {
			if out := x.jobctl("get", "pods", "-A"); strings.Contains(out, alice.name) {
				return errors.New(out)
			}
			return nil
		})
		for _, name := range []string{"made", "work", "tries", "batch.out"} {
			if is, err := os.Lstat(filepath.Join(alice.home, name)); err != nil || is.Sys().(*syscall.Stat_t).Uid != alice.uid {
				t.Errorf("%s of alice: %+v, %v", name, is, err)
			}
		}
		if after := hostAsItIs(t); !slices.Equal(before, after) {
			t.Errorf("the host has changed: was\n%s\nis\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
		}
	})
}

// runningPod waits until a Job has a running pod, and returns its name.
func (a *account) runningPod(job string) (name string) {
	a.d.t.Helper()
	a.d.eventually(job+" runs", func() error {
		name = a.jobctl("get", "pods", "-l", "batch.kubernetes.io/job-name="+job, "--field-selector", "status.phase=Running",
			"-o", "jsonpath={.items[*].metadata.name}")
		if name == "" {
			return errors.New(a.jobctl("get", "pods", "-o", "wide"))
		}
		return nil
	})
	return name
}

// hostAsItIs describes what a container must not change of the host: its mounts, but for those of daemons, and its root.
func hostAsItIs(t *testing.T) (all []string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if !strings.Contains(f[4], "/pods/") && !strings.Contains(f[4], "/pins/") && !strings.Contains(f[4], "jobd") && !strings.Contains(f[4], "/run/") {
			all = append(all, strings.Join(f[2:], " "))
		}
	}
	for _, dir := range []string{"/", "/usr", "/etc", "/home", "/var"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range append(entries, nil) {
			path := dir
			if e != nil {
				path = filepath.Join(dir, e.Name())
			}
			if strings.HasPrefix(filepath.Base(path), "passwd") || strings.HasPrefix(filepath.Base(path), "group") || strings.Contains(path, "shadow") ||
				strings.HasPrefix(filepath.Base(path), "sub") {
				continue // accounts are made and removed by this and other tests
			}
			info, err := os.Lstat(path)
			if errors.Is(err, os.ErrNotExist) || err == nil && path == "/etc" {
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			s := info.Sys().(*syscall.Stat_t)
			all = append(all, fmt.Sprintf("%s %v %d:%d", path, info.Mode(), s.Uid, s.Gid))
		}
	}
	return all
}
