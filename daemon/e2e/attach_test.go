package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const talkers = `
apiVersion: v1
kind: Pod
metadata: {name: talk}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
  - {name: shell, image: "busybox:1.36", command: [sh], stdin: true, tty: true}
  - {name: lines, image: "busybox:1.36", command: [sh, -c, "while read l; do echo got $l; echo err $l >&2; done"], stdin: true}
`

// TestAttach talks to containers: with and without a terminal, several clients at a time, before and after a kill -9 of
// the daemon, with clients that leave in good order and those that disappear.
func TestAttach(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, d *daemon) {
		d.apply(talkers)
		d.jobctl("wait", "--for=condition=Ready", "pod/talk", patiently)
		programs := d.programs(t)
		before := len(d.openFiles())
		for name, program := range programs {
			t.Run(name, func(t *testing.T) {
				one := talk(t, program("attach", "talk", "-c", "lines", "-i", "-q"))
				other := talk(t, program("attach", "talk", "-c", "lines", "-i", "-q"))
				// The other client may be attached only after the first line, or between the two streams.
				for i := 0; !strings.Contains(other.output(), "got hello") || !strings.Contains(other.output(), "err hello"); i++ {
					one.says(fmt.Sprintf("hello %d\n", i))
					one.hears(fmt.Sprintf("got hello %d\n", i))
				}
				other.says("from the other\n")
				one.hears("got from the other\n")
				one.kill()
				other.says("last\n")
				other.hears("got last\n")
				if code := other.ends(); code != 0 {
					t.Errorf("exit code %d of one who leaves: %s", code, other.output())
				}

				terminal := talk(t, onTerminal(t, program("attach", "talk", "-c", "shell", "-it", "-q")))
				terminal.says("until stty size | grep 33; do :; done; test -t 0 && echo $TERM $((6*7))\n")
				terminal.hears("33 77\r\n")
				terminal.hears("xterm 42\r\n")
				terminal.kill()
			})
		}
		t.Run("a daemon that is killed", func(t *testing.T) {
			one := talk(t, programs["kubectl"]("attach", "talk", "-c", "lines", "-i", "-q"))
			terminal := talk(t, onTerminal(t, programs["jobctl"]("attach", "talk", "-c", "shell", "-it", "-q")))
			one.says("before\n")
			one.hears("got before\n")
			terminal.says("word=kept; echo is $word\n")
			terminal.hears("is kept\r\n")
			d.kill()
			if one.ends() == 0 {
				t.Errorf("a client takes the end of the daemon for that of the container: %s", one.output())
			}
			d.serve()
			one = talk(t, programs["jobctl"]("attach", "talk", "-c", "lines", "-i", "-q"))
			terminal = talk(t, onTerminal(t, programs["kubectl"]("attach", "talk", "-c", "shell", "-it", "-q")))
			one.says("after\n")
			one.hears("got after\n")
			terminal.says("echo still $word\n")
			terminal.hears("still kept\r\n")
			terminal.says("exit 7\n")
			d.eventually("the shell has ended", func() error {
				pod, err := d.CoreV1().Pods("default").Get(t.Context(), "talk", metav1.GetOptions{})
				if err != nil {
					return err
				}
				for _, s := range pod.Status.ContainerStatuses {
					if s.RestartCount > 0 || s.Name == "shell" && (s.State.Terminated == nil || s.State.Terminated.ExitCode != 7) {
						return fmt.Errorf("%+v", s)
					}
				}
				return nil
			})
			if code := terminal.ends(); code != 0 {
				t.Errorf("exit code %d at the end of the container: %s", code, terminal.output())
			}
			one.kill()
		})
		if log := d.jobctl("logs", "talk", "-c", "lines"); !strings.Contains(log, "got before\n") || !strings.Contains(log, "got after\n") {
			t.Errorf("log of the lines: %q", log)
		}
		if log := d.jobctl("logs", "talk", "-c", "shell"); !strings.Contains(log, "is kept\r\n") || !strings.Contains(log, "still kept\r\n") {
			t.Errorf("log of the terminal: %q", log)
		}
		d.eventually("nobody is attached", func() error {
			goroutines := d.jobctl("get", "--raw", "/debug/pprof/goroutine?debug=1")
			if strings.Contains(goroutines, ").attach+") {
				return fmt.Errorf("goroutines:\n%s", goroutines)
			}
			if now := d.openFiles(); len(now) > before+4 {
				return fmt.Errorf("%d open files of the shards, %d before: %v", len(now), before, now)
			}
			return nil
		})
		if out, err := d.try("jobctl", nil, "attach", "talk", "-c", "shell"); err == nil || !strings.Contains(out, "is not running") {
			t.Errorf("attach to one that has ended: %v: %s", err, out)
		}
	}, "--listen", freePort(t))
}

// openFiles returns what the shards have open.
func (d *daemon) openFiles() []string {
	var open []string
	locks, _ := filepath.Glob(filepath.Join(d.state, "shards", "*", "lock"))
	for _, lock := range locks {
		pid, _ := os.ReadFile(lock)
		fds, _ := filepath.Glob("/proc/" + string(pid) + "/fd/*")
		for _, fd := range fds {
			target, _ := os.Readlink(fd)
			open = append(open, target)
		}
	}
	return open
}

// TestRunInteractively writes to the stdin of pods, and reads their output and exit codes.
func TestRunInteractively(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, d *daemon) {
		words := strings.Repeat("0123456789abcde\n", 1<<16)
		for name, program := range d.programs(t) {
			t.Run(name, func(t *testing.T) {
				id := strings.ReplaceAll(strings.ToLower(name), " ", "-")
				cmd := program("run", id, "-q", "-i", "--rm", "--restart=Never", "--image=busybox:1.36", "--", "sh", "-c", "cat; exit 3")
				cmd.Stdin = strings.NewReader(words)
				out, _ := cmd.Output()
				if code := cmd.ProcessState.ExitCode(); code != 3 || !strings.HasPrefix(string(out), words) {
					t.Errorf("exit code %d, %d bytes, at the end %q", code, len(out), out[max(0, len(out)-100):])
				}
				terminal := talk(t, onTerminal(t, program("run", id+"-tty", "-q", "-it", "--rm", "--restart=Never", "--image=busybox:1.36", "--", "sh")))
				terminal.says("stty size; echo $((6*7))\n")
				terminal.hears("42\r\n")
				terminal.says("exit 5\n")
				if code := terminal.ends(); code != 5 {
					t.Errorf("exit code %d of a terminal: %s", code, terminal.output())
				}
				d.eventually("the pods are gone", func() error {
					list, err := d.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
					if err == nil && len(list.Items) > 0 {
						err = fmt.Errorf("%d are there", len(list.Items))
					}
					return err
				})
			})
		}
	}, "--listen", freePort(t))
}
