package e2e

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/testdata/images"
)

// busyboxArchive writes an archive of busybox:1.36, as docker save does, and returns its path.
func busyboxArchive(t *testing.T) string {
	t.Helper()
	image, err := images.Busybox("docker.io/library/busybox:1.36")
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := images.WriteDocker(&archive, image); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "busybox.tar")
	if err := os.WriteFile(path, archive.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// jobdRun returns a command line of jobd run that has the image busybox:1.36.
func jobdRun(t *testing.T, archive string, args ...string) *exec.Cmd {
	return exec.CommandContext(t.Context(), filepath.Join(bin, "jobd"),
		append(append([]string{"run", "--image-archive", archive}, runtimeFlags()...), args...)...)
}

// placeOf returns the root and the state directory of a running jobd run.
func placeOf(t *testing.T, pid int) (root, state string) {
	t.Helper()
	locks, _ := filepath.Glob("/run/jobd-run/*.lock")
	for _, lock := range locks {
		if held, _ := os.ReadFile(lock); string(held) == strconv.Itoa(pid) {
			state = strings.TrimSuffix(lock, ".lock")
			owner, err := os.ReadFile(filepath.Join(state, "root"))
			if err != nil {
				t.Fatal(err)
			}
			return string(owner), state
		}
	}
	t.Fatalf("process %d has no place among %v", pid, locks)
	return "", ""
}

// leftOfRun finds what a run has left on the host.
func leftOfRun(root, state string) error {
	for what, left := range leftOnHost(root, state, "") {
		return fmt.Errorf("left on the host: %s: %s", what, left)
	}
	if _, err := os.Stat(state + ".lock"); err == nil {
		return fmt.Errorf("left on the host: %s.lock", state)
	}
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		if groups, _ := filepath.Glob(pattern + runtime.RootName(root) + "*"); len(groups) > 0 {
			return fmt.Errorf("left on the host: control groups %v", groups)
		}
	}
	return nil
}

func nothingIsLeft(t *testing.T, root, state string) {
	t.Helper()
	var err error
	for late := time.Now().Add(patience); time.Now().Before(late); time.Sleep(20 * time.Millisecond) {
		if err = leftOfRun(root, state); err == nil {
			return
		}
	}
	t.Error(err)
}

// Run without a daemon.
func TestRunWithoutDaemon(t *testing.T) {
	t.Parallel()
	needContainers(t)
	archive := busyboxArchive(t)
	const endless = "trap 'echo bye; exit 0' TERM; echo here; while :; do sleep 0.1; done"
	begin := func(t *testing.T, args ...string) (c *conversation, root, state string) {
		t.Helper()
		c = talk(t, jobdRun(t, archive, append(args, "--image", "busybox:1.36", "--", "sh", "-c", endless)...))
		c.hears("here")
		root, state = placeOf(t, c.cmd.Process.Pid)
		return c, root, state
	}
	t.Run("output and exit code", func(t *testing.T) {
		for _, code := range []int{0, 1, 3, 125, 255} {
			out, errOut, got := exitOf(t, jobdRun(t, archive, "-f", "-"), jobOf("x", fmt.Sprintf("echo to stdout; exit %d", code)))
			if got != code || out != "to stdout\n" {
				t.Errorf("exit %d: got %d, %q\n%s", code, got, out, errOut)
			}
		}
	})
	t.Run("in a namespace, which nothing has created", func(t *testing.T) {
		inFile := jobManifest{
			name: "x", metadata: "namespace: mine", spec: "backoffLimit: 0", program: []string{"sh", "-c", "echo in mine"},
		}.String()
		for _, args := range [][]string{{"-n", "other", "--image", "busybox:1.36", "--", "echo", "in other"}, {"-f", "-"}} {
			out, errOut, code := exitOf(t, jobdRun(t, archive, args...), inFile)
			if code != 0 || out == "" {
				t.Errorf("%v: got %d, %q\n%s", args, code, out, errOut)
			}
		}
	})
	t.Run("beside a daemon and another run", func(t *testing.T) {
		d := start(t)
		d.apply(jobOf("other", "echo here; sleep 1000000"))
		before := d.running("other", 1)[0]
		c, root, state := begin(t)
		if out, errOut, code := exitOf(t, jobdRun(t, archive, "--image", "busybox:1.36", "--", "echo", "second"), ""); code != 0 || out != "second\n" {
			t.Errorf("got %d, %q\n%s", code, out, errOut)
		}
		if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		c.ends()
		nothingIsLeft(t, root, state)
		if after := d.running("other", 1)[0]; after.UID != before.UID {
			t.Error("the daemon's pod is another one now")
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		c, root, state := begin(t)
		if err := c.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if code := c.ends(); code != 130 || !strings.Contains(c.output(), "bye") {
			t.Errorf("got %d, and the container had no time to end:\n%s", code, c.output())
		}
		nothingIsLeft(t, root, state)
	})
	t.Run("killed", func(t *testing.T) {
		c, root, state := begin(t)
		c.kill()
		nothingIsLeft(t, root, state)
	})
	t.Run("killed together with what clears up after it", func(t *testing.T) {
		c, root, state := begin(t)
		kill := []int{c.cmd.Process.Pid}
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", kill[0]))
		if err != nil {
			t.Fatal(err)
		}
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", kill[0]))
		for _, thread := range threads {
			more, _ := os.ReadFile(thread)
			children = append(append(children, ' '), more...)
		}
		for _, child := range strings.Fields(string(children)) {
			if cmdline, _ := os.ReadFile("/proc/" + child + "/cmdline"); bytes.Contains(cmdline, []byte("--guard")) {
				pid, _ := strconv.Atoi(child)
				kill = append([]int{pid}, kill...)
			}
		}
		if len(kill) < 2 {
			t.Fatalf("there is no guard among %q", children)
		}
		for _, pid := range kill {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		c.ends()
		if leftOfRun(root, state) == nil {
			t.Fatal("nothing is left to be cleared")
		}
		if _, errOut, code := exitOf(t, jobdRun(t, archive, "--image", "busybox:1.36", "--", "true"), ""); code != 0 {
			t.Errorf("the next run: %d\n%s", code, errOut)
		}
		nothingIsLeft(t, root, state)
	})
	t.Run("a root keeps images", func(t *testing.T) {
		root := filepath.Join("/var/tmp", fmt.Sprint("jobd-e2e-run.", os.Getpid()))
		t.Cleanup(func() { _ = os.RemoveAll(root) })
		run := func(args ...string) (string, string, int) {
			return exitOf(t, exec.CommandContext(t.Context(), filepath.Join(bin, "jobd"),
				append(append([]string{"run", "--root", root}, runtimeFlags()...), args...)...), jobOf("same-name", "echo hello"))
		}
		if _, errOut, code := run("-f", "-", "--image-archive", archive); code != 0 {
			t.Fatalf("got %d\n%s", code, errOut)
		}
		if out, errOut, code := run("-f", "-"); code != 0 || out != "hello\n" {
			t.Errorf("again: got %d, %q\n%s", code, out, errOut)
		}
		if _, err := os.Stat(filepath.Join(root, "jobd.db")); err == nil {
			t.Error("it keeps the database")
		}
		// Killed, and used again at once.
		c, _, state := begin(t, "--root", root)
		c.kill()
		if out, errOut, code := run("-f", "-"); code != 0 || out != "hello\n" {
			t.Errorf("after a kill: got %d, %q\n%s", code, out, errOut)
		}
		for late := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			if _, err := os.Stat(state + ".lock"); err != nil {
				break
			} else if time.Now().After(late) {
				t.Fatal("what was killed is not cleared")
			}
		}
	})
	t.Run("a daemon's root is refused", func(t *testing.T) {
		d := start(t)
		_, errOut, code := exitOf(t, jobdRun(t, archive, "--root", d.root, "--image", "busybox:1.36"), "")
		if code != 125 || !strings.Contains(errOut, "is not a root of jobd run") {
			t.Errorf("got %d\n%s", code, errOut)
		}
	})
	t.Run("an image that cannot be had", func(t *testing.T) {
		_, errOut, code := exitOf(t, jobdRun(t, archive, "--image", "nowhere:1", "--pull=never"), "")
		if code != 125 || !strings.Contains(errOut, "ErrImageNeverPull") {
			t.Errorf("got %d\n%s", code, errOut)
		}
	})
}

// A machine-readable end.
func TestMachineReadableEnd(t *testing.T) {
	t.Parallel()
	d := start(t)
	archive := busyboxArchive(t)
	manifest := jobOf("tests", "echo this is $JOB_COMPLETION_INDEX; [ $JOB_COMPLETION_INDEX != 1 ]",
		"  completions: 3\n  parallelism: 3\n  completionMode: Indexed\n  backoffLimitPerIndex: 0\n")
	for name, command := range map[string]func(...string) *exec.Cmd{
		"jobctl submit": func(args ...string) *exec.Cmd { return d.jobctlWith(append([]string{"submit"}, args...)...) },
		"jobd run":      func(args ...string) *exec.Cmd { return jobdRun(t, archive, args...) },
	} {
		for system, begins := range map[string]string{"GITHUB_ACTIONS": "::group::pod ", "GITLAB_CI": "[collapsed=true]\r\x1b[0Kpod "} {
			t.Run(name+" in "+system, func(t *testing.T) {
				dir := t.TempDir()
				cmd := command("-f", "-", "--junit", filepath.Join(dir, "out.xml"), "--summary-json", filepath.Join(dir, "out.json"))
				if cmd.Env == nil {
					cmd.Env = os.Environ()
				}
				cmd.Env = append(cmd.Env, "GITHUB_ACTIONS=", "GITLAB_CI=", system+"=true")
				out, errOut, code := exitOf(t, cmd, manifest)
				if name == "jobctl submit" {
					d.jobctl("delete", "job", "tests")
				}
				if code != 1 {
					t.Errorf("got %d\n%s%s", code, out, errOut)
				}
				for index := range 3 {
					if !regexp.MustCompile(
						regexp.QuoteMeta(begins) + fmt.Sprintf(`tests-%d-[a-z0-9]{5} \(index %[1]d\)\nthis is %[1]d\n`, index),
					).MatchString(out) {
						t.Errorf("no group of index %d:\n%q", index, out)
					}
				}
				var junit struct {
					Suite struct {
						Tests    int `xml:"tests,attr"`
						Failures int `xml:"failures,attr"`
						Cases    []struct {
							Name    string    `xml:"name,attr"`
							Failure *struct{} `xml:"failure"`
							Output  string    `xml:"system-out"`
						} `xml:"testcase"`
					} `xml:"testsuite"`
				}
				raw, err := os.ReadFile(filepath.Join(dir, "out.xml"))
				if err != nil {
					t.Fatal(err)
				}
				if err := xml.Unmarshal(raw, &junit); err != nil {
					t.Fatal(err)
				}
				if s := junit.Suite; s.Tests != 3 || s.Failures != 1 || s.Cases[1].Failure == nil || s.Cases[1].Output != "this is 1" {
					t.Errorf("%s", raw)
				}
				var summary struct {
					Result        string
					ExitCode      int
					FailedIndexes string
					Pods          []struct{ State string }
				}
				if raw, err = os.ReadFile(filepath.Join(dir, "out.json")); err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(raw, &summary); err != nil {
					t.Fatal(err)
				}
				if summary.Result != "failed" || summary.ExitCode != 1 || summary.FailedIndexes != "1" || len(summary.Pods) != 3 {
					t.Errorf("%s", raw)
				}
			})
		}
	}
}
