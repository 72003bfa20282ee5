package e2e

import (
	"errors"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// hungUp matches a client's complaint that nobody wants the rest of its stdin, which it prints if it is still writing
// when the server has waited long enough for it.
var hungUp = regexp.MustCompile(`(?m)^E\d{4} .* v2\.go:\d+\] .*(broken pipe|connection reset by peer).*\n`)

// TestExec runs commands in a running container: by kubectl over TLS (WebSocket, or SPDY where it is told to use that),
// and by jobctl over the socket.
func TestExec(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, d *daemon) {
		d.apply(sleeper("long", 1, 1000, ""))
		pod := d.running("long", 1)[0].Name
		for name, program := range d.programs(t) {
			t.Run(name, func(t *testing.T) {
				big := strings.Repeat("0123456789abcde\n", 1<<14)
				for _, c := range []struct {
					what, in string
					args     []string
					code     int
					out, err string
				}{
					{"both streams and success", "", []string{pod, "--", "sh", "-c", "echo out; echo err >&2"}, 0, "out\n", "err\n"},
					{"an exit code", "", []string{pod, "--", "sh", "-c", "exit 42"}, 42, "", "command terminated with exit code 42\n"},
					{"stdin", big, []string{"-i", pod, "--", "cat"}, 0, big, ""},
					{"a command that ends before its stdin", big, []string{"-i", pod, "--", "head", "-n1"}, 0, big[:16], ""},
				} {
					cmd := program(append([]string{"exec"}, c.args...)...)
					var out, errOut strings.Builder
					cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(c.in), &out, &errOut
					err := cmd.Run()
					var ended *exec.ExitError
					if err != nil && !errors.As(err, &ended) {
						t.Fatal(err)
					}
					complaints := hungUp.ReplaceAllString(errOut.String(), "")
					if code := cmd.ProcessState.ExitCode(); code != c.code || out.String() != c.out || complaints != c.err {
						t.Errorf("%s: exit code %d, output %.100q, errors %.300q", c.what, code, out.String(), complaints)
					}
				}
				cmd := onTerminal(
					t,
					program("exec", "-it", pod, "--", "sh", "-c", "'until stty size 2>/dev/null | grep .; do sleep 0.1; done; test -t 0 && exit 5'"),
				)
				out, _ := cmd.CombinedOutput()
				if code := cmd.ProcessState.ExitCode(); code != 5 || !strings.Contains(string(out), "33 77") {
					t.Errorf("with a terminal: exit code %d, %q", code, out)
				}
			})
		}
		if out, err := d.try("jobctl", nil, "exec", pod, "--", "nosuchcommand"); err == nil || !strings.Contains(out, "nosuchcommand") {
			t.Errorf("no such command: %v\n%s", err, out)
		}
		if out, err := d.try("jobctl", nil, "exec", pod, "-c", "other", "--", "true"); err == nil || !strings.Contains(out, "other") {
			t.Errorf("no such container: %v\n%s", err, out)
		}
	}, "--listen", freePort(t))
}
