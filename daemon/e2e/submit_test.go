package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// jobctlWith returns a command line of jobctl on the daemon's socket, which ends with the test.
func (d *daemon) jobctlWith(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(d.t.Context(), filepath.Join(bin, "jobctl"), args...)
	cmd.Env = append(os.Environ(), "JOBD_SOCKET="+d.socket(), "HOME="+d.t.TempDir())
	return cmd
}

// exitOf runs a command and returns what it has printed, and its exit code.
func exitOf(t *testing.T, cmd *exec.Cmd, stdin string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errOut
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// jobOf is a manifest of a Job with a shell script that fails with its first pod; more of its spec may follow.
// With a backoffLimitPerIndex the other indexes still run to their ends.
func jobOf(name, script string, more ...string) string {
	rest, limit := strings.Join(more, ""), "  backoffLimit: 0\n"
	if strings.Contains(rest, "backoffLimitPerIndex") {
		limit = ""
	}
	return fmt.Sprintf(`apiVersion: batch/v1
kind: Job
metadata: {name: %s}
spec:
%s  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      containers:
      - {name: c, image: "busybox:1.36", command: [sh, -c, %q]}
%s`, name, limit, script, rest)
}

// Wait for complete or failed.
func TestWaitForFinished(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.apply(jobOf("good", "true"))
	d.apply(jobOf("bad", "exit 3"))
	d.apply(jobOf("endless", "sleep 1000000"))
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"jobs/good", "job.batch/good complete", 0},
		{"jobs/bad", "job.batch/bad failed: BackoffLimitExceeded", 1},
		{"job good bad", "job.batch/good complete", 1},
		{"jobs/endless --timeout=1s", "timed out waiting for job.batch/endless", 124},
		{"jobs/endless --timeout=0", "timed out", 124},
		{"jobs/missing", `"missing" not found`, 1},
		{"pods --all", "--for=finished is for Jobs", 1},
	} {
		out, errOut, code := exitOf(t, d.jobctlWith(append([]string{"wait", "--for=finished"}, strings.Fields(c.args)...)...), "")
		if code != c.code || !strings.Contains(out+errOut, c.want) {
			t.Errorf("wait --for=finished %s: %d, want %d\n%s%s", c.args, code, c.code, out, errOut)
		}
	}
	// One that is deleted meanwhile.
	waiting := talk(t, d.jobctlWith("wait", "--for=finished", "jobs/endless", "--timeout=10m"))
	d.jobctl("delete", "job", "endless")
	if code := waiting.ends(); code != 1 {
		t.Errorf("of a deleted Job: %d: %s", code, waiting.output())
	}
	// Without --for, and by a bare name.
	for _, args := range [][]string{{"wait", "jobs/good"}, {"wait", "good"}, {"wait", "jobs", "good"}, {"wait", "--for=complete", "jobs/good"}} {
		if out, errOut, code := exitOf(t, d.jobctlWith(args...), ""); code != 0 {
			t.Errorf("%q: %d %s%s", args, code, out, errOut)
		}
	}
	// kubectl's own conditions are as they were.
	if out := d.jobctl("wait", "--for=condition=Complete", "jobs/good"); !strings.Contains(out, "condition met") {
		t.Error(out)
	}
}

// TestSubmitAgain: a Job that was edited takes the place of the one before, and one that cannot start is not left behind.
func TestSubmitAgain(t *testing.T) {
	t.Parallel()
	address := freePort(t)
	d := start(t, "--listen", address)
	first, second := jobOf("again", "echo first"), jobOf("again", "echo second")
	if out, errOut, code := exitOf(t, d.jobctlWith("submit", "-f", "-"), first); code != 0 || out != "first\n" {
		t.Fatalf("%d %s%s", code, out, errOut)
	}
	if _, errOut, code := exitOf(t, d.jobctlWith("apply", "-f", "-"), second); code == 0 ||
		!strings.Contains(errOut, "replace --force") || strings.Contains(errOut, "{") {
		t.Errorf("an edited template: %s", errOut)
	}
	if _, errOut, code := exitOf(t, d.jobctlWith("submit", "-f", "-"), second); code != 125 || !strings.Contains(errOut, "--replace") {
		t.Errorf("the same name: %d %s", code, errOut)
	}
	if out, errOut, code := exitOf(t, d.jobctlWith("submit", "--replace", "-f", "-"), second); code != 0 || out != "second\n" {
		t.Errorf("in its place: %d %s%s", code, out, errOut)
	}
	if out, errOut, code := exitOf(t, d.jobctlWith("submit", "--replace", "-f", "-"), jobOf("new", "echo new")); code != 0 || out != "new\n" {
		t.Errorf("in nobody's place: %d %s%s", code, out, errOut)
	}
	_, errOut, code := exitOf(
		t,
		d.jobctlWith("submit", "--name", "huge", "--image", "busybox:1.36", "--cpu", "1000", "--on-start-error=fail", "--", "true"),
		"",
	)
	if code != 125 || !strings.Contains(errOut, "the Job was deleted") {
		t.Errorf("it cannot start: %d %s", code, errOut)
	}
	if out, err := d.try("jobctl", nil, "get", "jobs/huge"); err == nil {
		t.Errorf("it was left behind: %s", out)
	}

	// The log of a Job is all of it, by its bare name, and also for a colleague with a kubeconfig.
	d.apply(jobOf("many", "echo $JOB_COMPLETION_INDEX", "  completions: 3\n  completionMode: Indexed\n"))
	d.complete("many")
	file := filepath.Join(t.TempDir(), "colleague.kubeconfig")
	if err := os.WriteFile(file, []byte(d.jobctl("kubeconfig", "--role", "read", "--namespace", "default")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"logs", "jobs/many"}, {"logs", "many"}, {"--kubeconfig", file, "logs", "jobs/many"},
		{"--kubeconfig", file, "logs", "many", "--stream", "stdout"},
	} {
		out, errOut, code := exitOf(t, d.jobctlWith(args...), "")
		if lines := strings.Fields(out); code != 0 || len(lines) != 3 || strings.Contains(errOut, "using pod") {
			t.Errorf("%q: %d %s%s", args, code, out, errOut)
		}
	}
}

// The Job's exit code is the command's.
func TestSubmitExitCode(t *testing.T) {
	t.Parallel()
	d := start(t)
	for _, code := range []int{0, 1, 2, 42, 124, 125, 126, 127, 130, 137, 255} {
		out, errOut, got := exitOf(t, d.jobctlWith("submit", "-f", "-"), jobOf(fmt.Sprint("code-", code), fmt.Sprintf("echo to stdout; exit %d", code)))
		if got != code || out != "to stdout\n" {
			t.Errorf("exit %d: got %d, %q\n%s", code, got, out, errOut)
		}
	}
	t.Run("each of 0 to 255", func(t *testing.T) {
		if testing.Short() {
			t.Skip("starts 256 containers")
		}
		var all errgroup.Group
		all.SetLimit(8)
		for code := range 256 {
			all.Go(func() error {
				cmd := d.jobctlWith("submit", "--image", "busybox:1.36", "--progress=quiet", "--", "sh", "-c", fmt.Sprint("exit ", code))
				out, _ := cmd.CombinedOutput()
				if got := cmd.ProcessState.ExitCode(); got != code {
					return fmt.Errorf("exit %d: got %d: %s", code, got, out)
				}
				return nil
			})
		}
		if err := all.Wait(); err != nil {
			t.Error(err)
		}
	})
	t.Run("the first pod that counts as a failure", func(t *testing.T) {
		manifest := jobOf("first", `[ $JOB_COMPLETION_INDEX = 1 ] && exit 7; [ $JOB_COMPLETION_INDEX = 2 ] && exit 42; sleep 1000000`,
			"  completions: 3\n  parallelism: 3\n  completionMode: Indexed\n",
			"  podFailurePolicy: {rules: [{action: Ignore, onExitCodes: {operator: In, values: [42]}}]}\n")
		if _, errOut, code := exitOf(t, d.jobctlWith("submit", "-f", "-"), manifest); code != 7 {
			t.Errorf("got %d\n%s", code, errOut)
		}
	})
	t.Run("a deadline is 124", func(t *testing.T) {
		if _, errOut, code := exitOf(t, d.jobctlWith("submit", "-f", "-"), jobOf("late", "sleep 1000000", "  activeDeadlineSeconds: 1\n")); code != 124 {
			t.Errorf("got %d\n%s", code, errOut)
		}
	})
	t.Run("a refusal is 125", func(t *testing.T) {
		_, errOut, code := exitOf(t, d.jobctlWith("submit", "-f", "-"), jobOf("bad", "true", "  nonsense: 1\n"))
		if code != 125 || !strings.Contains(errOut, `unknown field "spec.nonsense"`) {
			t.Errorf("got %d\n%s", code, errOut)
		}
	})
	t.Run("an image that cannot be had is 125 on demand", func(t *testing.T) {
		_, errOut, code := exitOf(t, d.jobctlWith("submit", "--image", "nowhere:1", "--pull=never", "--on-start-error=fail"), "")
		if code != 125 || !strings.Contains(errOut, "ErrImageNeverPull") {
			t.Errorf("got %d\n%s", code, errOut)
		}
	})
	t.Run("a Job that somebody deletes is 125", func(t *testing.T) {
		c := talk(t, d.jobctlWith("submit", "-f", writeFile(t, jobOf("deleted", "echo here; sleep 1000000"))))
		c.hears("here")
		d.jobctl("delete", "job", "deleted")
		if code := c.ends(); code != 125 || !strings.Contains(c.output(), "was deleted") {
			t.Errorf("got %d\n%s", code, c.output())
		}
	})
	t.Run("a file with everything in it", func(t *testing.T) {
		manifest := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: words}\ndata: {WORD: hello}\n---\n" +
			jobManifest{
				name: "all", spec: "backoffLimit: 0", container: "envFrom: [{configMapRef: {name: words}}]", program: []string{"sh", "-c", "echo $WORD"},
			}.String()
		if out, errOut, code := exitOf(t, d.jobctlWith("submit", "-f", "-"), manifest); code != 0 || out != "hello\n" {
			t.Errorf("got %d, %q\n%s", code, out, errOut)
		}
	})
	t.Run("detached and joined", func(t *testing.T) {
		out, _, code := exitOf(t, d.jobctlWith("submit", "--detach", "-f", "-"), jobOf("later", "echo one; sleep 1; echo two; exit 9"))
		if code != 0 || out != "job.batch/later\n" {
			t.Errorf("got %d, %q", code, out)
		}
		for range 2 { // while it runs, and when it has ended
			if out, errOut, code := exitOf(t, d.jobctlWith("follow", "jobs/later"), ""); code != 9 || out != "one\ntwo\n" {
				t.Errorf("got %d, %q\n%s", code, out, errOut)
			}
		}
	})
	t.Run("the daemon is killed meanwhile", func(t *testing.T) {
		c := talk(t, d.jobctlWith("submit", "-f", writeFile(t, jobOf("goes-on", "echo one; until [ -e /go ]; do sleep 0.1; done; echo two; exit 5"))))
		c.hears("one")
		d.kill()
		c.hears("does not answer")
		d.serve()
		d.jobctl("exec", "jobs/goes-on", "--", "touch", "/go")
		if code := c.ends(); code != 5 || strings.Count(c.output(), "one\n") != 1 || strings.Count(c.output(), "two\n") != 1 {
			t.Errorf("got %d\n%s", code, c.output())
		}
	})
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What an interrupt does where nobody can be asked.
func TestSubmitInterrupted(t *testing.T) {
	t.Parallel()
	d := start(t)
	for _, c := range []struct {
		name   string
		flags  []string
		signal syscall.Signal
		code   int
		stays  bool
	}{
		{"by default it goes on", nil, syscall.SIGTERM, 143, true},
		{"it goes on", []string{"--on-interrupt=detach"}, syscall.SIGINT, 130, true},
		{"it is deleted", []string{"--on-interrupt=delete"}, syscall.SIGINT, 130, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := strings.ReplaceAll(c.name, " ", "-")
			cmd := talk(t, d.jobctlWith(append([]string{"submit", "-f", writeFile(t, jobOf(name, "echo here; sleep 1000000"))}, c.flags...)...))
			cmd.hears("here")
			if err := cmd.cmd.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			if code := cmd.ends(); code != c.code {
				t.Errorf("got %d\n%s", code, cmd.output())
			}
			_, err := d.BatchV1().Jobs("default").Get(t.Context(), name, metav1.GetOptions{})
			if stays := err == nil; stays != c.stays {
				t.Errorf("after it: %v", err)
			}
			if c.stays {
				d.jobctl("delete", "job", name)
			}
		})
	}
}
