package e2e

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSubmitInteractive: a shell that waits in the queue behind another Job, is left and joined again, outlives the daemon, gives its exit
// code, and ends with its terminal.
func TestSubmitInteractive(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none", "--allocatable", "example.com/card=1")
	card := func(name string) string {
		return strings.Replace(jobOf(name, "sleep 1000000"), "command:", `resources: {limits: {example.com/card: "1"}}, command:`, 1)
	}
	d.apply(card("holder"))
	d.running("holder", 1)
	gone := func(name string) {
		t.Helper()
		d.eventually(name+" is gone", func() error {
			if _, err := d.BatchV1().Jobs("default").Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("it is there: %v", err)
			}
			return nil
		})
	}
	cpus := d.freeCPUs()
	d.apply(strings.Replace(jobOf("all", "sleep 1000000"), "command:", "resources: {requests: {cpu: "+cpus+"}}, command:", 1))
	d.running("all", 1)
	shell := "jobctl submit -it --cpu " + cpus + " --image busybox:1.36 --name "

	term := openTmux(t, d, 100, 30)
	term.types(shell+"shell -- sh -c 'echo printed before; PS1=\"prompt> \" exec sh'; echo code $?", "Enter")
	term.shows("it ends 8h0m0s after its start (--deadline)")
	term.shows("job shell waits: no room for")
	term.shows("place 1 of 1 in the queue")
	d.jobctl("delete", "job", "all", "--now")
	term.shows("printed before")
	term.shows("prompt>")
	// A size comes when it comes.
	term.types("until stty size | grep '30 10[0]'; do :; done; trap 'echo inter''rupted' INT; word=kept; echo $((40+2))", "Enter")
	term.shows("30 100")
	term.shows("\n42")
	term.types("C-c")
	term.shows("interrupted") // the container's, not jobctl's
	term.do("resize-window", "-x", "80", "-y", "24")
	term.types("until stty size | grep '24 8[0]'; do :; done", "Enter")
	term.shows("24 80")
	term.types("C-p", "C-q")
	term.shows("join it again with: jobctl attach jobs/shell")
	term.shows("code 0")
	d.running("shell", 1)
	term.types("clear; jobctl attach jobs/shell; echo code $?", "Enter")
	term.types("echo still $word", "Enter")
	term.shows("still kept")
	d.kill() // a connection that is lost is joined again
	d.serve()
	term.types("echo and $word$word", "Enter")
	term.shows("and keptkept")
	term.types("exit 7", "Enter")
	term.shows("code 7")
	if log := d.jobctl("logs", "jobs/shell"); !strings.Contains(log, "printed before") || !strings.Contains(log, "still kept") {
		t.Errorf("the log: %q", log)
	}

	// The end of the terminal is that of the Job, also while it waits; so is Ctrl-C then.
	hung := openTmux(t, d, 100, 30)
	hung.types(shell+"hung -- sh", "Enter")
	hung.shows("/ #")
	hung.do("kill-server")
	gone("hung")
	d.apply(strings.Replace(jobOf("all", "sleep 1000000"), "command:", "resources: {requests: {cpu: "+cpus+"}}, command:", 1))
	d.running("all", 1)
	waits := openTmux(t, d, 100, 30)
	waits.types(shell+"waits -- sh", "Enter")
	waits.shows("job waits waits: no room for")
	waits.do("kill-server")
	gone("waits")
	term.types("clear; "+shell+"stopped -- sh; echo code $?", "Enter")
	term.shows("job stopped waits: no room for")
	term.types("C-c")
	term.shows("code 130")
	gone("stopped")

	// kubectl's command waits likewise.
	term.types("clear; jobctl run pod -i -t --rm --restart=Never --image busybox:1.36 --overrides="+
		`'{"spec":{"containers":[{"name":"pod","image":"busybox:1.36","stdin":true,"tty":true,"resources":{"requests":{"cpu":"`+cpus+`"}}}]}}'; echo code $?`, "Enter")
	term.shows("pod pod waits: no room for")
	d.jobctl("delete", "job", "all", "--now")
	term.shows("/ #")
	term.types("exit 3", "Enter")
	term.shows("code 3")

	// Without a terminal the input is what is piped, to its end; and a Job may be left from the beginning.
	out, errOut, code := exitOf(t, d.jobctlWith("submit", "-i", "--image", "busybox:1.36", "--name", "piped", "--", "sh", "-c", "wc -l; exit 5"), "a\nb\nc\n")
	if code != 5 || strings.TrimSpace(out) != "3" {
		t.Errorf("piped: %d %q %s", code, out, errOut)
	}
	// What a command has printed that ends before it can be joined is shown all the same.
	out, errOut, code = exitOf(t, d.jobctlWith("submit", "-i", "--image", "busybox:1.36", "--", "sh", "-c", "echo early; exit 3"), "")
	if code != 3 || out != "early\n" {
		t.Errorf("a quick command: %d %q %s", code, out, errOut)
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"-t needs -i", []string{"submit", "-t", "--image", "busybox:1.36", "--", "sh"}},
		{"the standard input is no terminal", []string{"submit", "-it", "--image", "busybox:1.36", "--", "sh"}},
		{"-i is for a Job of one pod", []string{"submit", "-i", "--completions", "2", "--image", "busybox:1.36", "--", "sh"}},
		{"no container of job holder reads", []string{"attach", "jobs/holder"}},
	} {
		if out, err := d.try("jobctl", nil, c.args...); err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%v: %v %s", c.args, err, out)
		}
	}
	name := strings.TrimSpace(d.jobctl("submit", "-it", "--detach", "--deadline", "2s", "--image", "busybox:1.36", "-o", "name", "--", "sh"))
	term.types("clear; jobctl attach "+strings.Replace(name, "job.batch", "jobs", 1)+"; echo code $?", "Enter")
	term.shows("code 124")
}

// freeCPUs is how many whole CPUs a Job can have.
func (d *daemon) freeCPUs() string {
	d.t.Helper()
	return strings.TrimSpace(d.jobctl("get", "nodes", "-o", "jsonpath={.items[0].status.allocatable.cpu}"))
}
