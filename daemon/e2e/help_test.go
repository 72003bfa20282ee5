package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Nothing but Jobs in the help. No daemon is needed to read it, and without one everything else says how to
// start one.
func TestHelpThatLeadsWithJobs(t *testing.T) {
	if bin == "" {
		t.Skip("needs the built programs: make e2e")
	}
	jobctl := func(args ...string) (string, error) {
		cmd := exec.Command(filepath.Join(bin, "jobctl"), args...)
		cmd.Env = append(os.Environ(), "JOBD_SOCKET="+filepath.Join(t.TempDir(), "none.sock"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := jobctl("help")
	if err != nil {
		t.Fatal(out)
	}
	last := 0
	for _, words := range []string{
		"Jobs:\n  submit ", "\n  follow ", "\n  logs ", "\n  why ", "\n  wait ", "\n  retry ", "\n  suspend ", "\n  resume ",
		"\nObjects, Jobs among them:\n  apply ",
	} {
		at := strings.Index(out, words)
		if at < last {
			t.Errorf("%q is missing, or comes too early", words)
		}
		last = max(last, at)
	}
	for _, verb := range []string{"scale", "autoscale", "rollout", "expose", "certificate"} {
		if strings.Contains(out, "\n  "+verb+" ") {
			t.Errorf("the help lists %s", verb)
		}
		if said, err := jobctl(verb, "deployment", "web"); err == nil || !strings.Contains(said, "jobd does not have ") {
			t.Errorf("%s: %v %s", verb, err, said)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
	if said, err := jobctl("get", "jobs"); err == nil || !strings.Contains(said, "sudo jobd serve") || !strings.Contains(said, "jobd run") {
		t.Errorf("without a daemon: %v %s", err, said)
	}
}
