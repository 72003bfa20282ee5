package e2e

import (
	"strings"
	"testing"
)

// TestLabelsOfPods: on a terminal each line says which of several pods has written it, in the pod's color; elsewhere, and for one pod,
// nothing is added.
func TestLabelsOfPods(t *testing.T) {
	t.Parallel()
	d := start(t)
	many := jobOf("many", "echo line of $JOB_COMPLETION_INDEX", "  completions: 2\n  parallelism: 2\n  completionMode: Indexed\n")
	term := openTmux(t, d, 80, 24)
	term.types("jobctl submit -f "+writeFile(t, many)+"; echo code $?", "Enter")
	submitted := term.shows("code 0")
	term.types("clear; jobctl logs many; echo end $?", "Enter")
	logs := term.shows("end 0")
	colored := term.do("capture-pane", "-p", "-e")
	for _, index := range []string{"0", "1"} {
		want := "[" + index + "] line of " + index + "\n"
		if !strings.Contains(submitted, want) {
			t.Errorf("submit does not show %q:\n%s", want, submitted)
		}
		if !strings.Contains(logs, want) {
			t.Errorf("logs does not show %q:\n%s", want, logs)
		}
	}
	if !strings.Contains(colored, "\x1b[36m[0]\x1b[39m line of 0") || !strings.Contains(colored, "\x1b[33m[1]\x1b[39m line of 1") {
		t.Errorf("there are other colors: %q", colored)
	}
	for _, c := range []struct{ command, want, not string }{
		{"jobctl logs many --prefix=false", "line of 0\n", "] line"},
		{"jobctl logs many --prefix", "/c index=1 stdout] line of 1\n", "[1]"},
		{"jobctl logs many | cat", "line of 1\n", "] line"},
		{"NO_COLOR=1 jobctl logs many --timestamps | grep -c line", "2\n", "] line"},
		{"jobctl submit --image busybox:1.36 -- echo hello", "hello\n", "] hello"},
	} {
		fresh := openTmux(t, d, 100, 24)
		fresh.types(c.command+"; echo code $?", "Enter")
		if screen := fresh.shows("code 0"); !strings.Contains(screen, c.want) || strings.Contains(screen, c.not) {
			t.Errorf("%s: there is no %q, or %q, in\n%s", c.command, c.want, c.not, screen)
		}
	}
}
