package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jobd/jobd/daemon/doctor"
)

// TestDoctor examines this host beside a daemon that runs on it, and finds nothing of it afterwards. Without programs that run
// containers it says which one to install.
func TestDoctor(t *testing.T) {
	d := start(t)
	examine := func(path string) (map[string]doctor.Finding, int) {
		t.Helper()
		cmd := exec.Command(filepath.Join(d.build, "jobd"), "doctor", "-o", "json", "--root", filepath.Join(d.root, "beside", "root"),
			"--state", filepath.Join(d.state, "beside", "state"))
		cmd.Env = append(os.Environ(), path)
		out, _ := cmd.Output()
		var found []doctor.Finding
		if err := json.Unmarshal(out, &found); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		bySubject := map[string]doctor.Finding{}
		for _, f := range found {
			bySubject[f.Subject] = f
		}
		return bySubject, cmd.ProcessState.ExitCode()
	}
	found, code := examine("PATH=" + os.Getenv("PATH"))
	if code != 0 || found["containers"].Level != doctor.OK || found["cgroups"].Level != doctor.OK {
		t.Errorf("exit code %d, %+v", code, found)
	}
	found, code = examine("PATH=/nowhere")
	if f := found["containers"]; code != 1 || f.Level != doctor.Broken || f.Help == "" {
		t.Errorf("without an OCI runtime: exit code %d, %+v", code, f)
	}
	for _, dir := range []string{d.root, d.state} {
		if left, _ := filepath.Glob(filepath.Join(dir, "jobd-doctor-*")); len(left) > 0 {
			t.Errorf("the examination has left %v", left)
		}
	}
}
