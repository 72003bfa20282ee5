package e2e

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jobd/jobd/api/inspection"
)

// TestInspection looks at a daemon while Jobs come and go, and while a pod's step waits.
func TestInspection(t *testing.T) {
	t.Parallel()
	d := start(t)
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "jobd"), "debug", "--state", d.state, "--during", "3s", "-o", "json")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.apply(jobOf("seen", "sleep 1000", ""))
	d.jobctl("wait", "--for=jsonpath={.status.active}=1", "jobs/seen")
	var is inspection.Daemon
	if err := json.NewDecoder(out).Decode(&is); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if is.Loop == nil || len(is.Sections) != 3 || is.Workers.Free == 0 {
		t.Fatalf("got %+v", is)
	}
	if !slices.ContainsFunc(is.Loop.Passes, func(p inspection.Pass) bool { return p.Written > 0 && p.Concerns["jobs"] > 0 && p.Took > 0 }) {
		t.Errorf("no pass has created the pod: %+v", is.Loop.Passes)
	}
	if !slices.ContainsFunc(is.Loop.Concerns, func(c inspection.Concern) bool { return c.Name == "sweep" && c.Timers == 1 && c.Next != nil }) {
		t.Errorf("the sweep waits for nothing: %+v", is.Loop.Concerns)
	}
	text, err := d.try("jobd", nil, "debug", "--state", d.state, "--during", "0s")
	for _, want := range []string{"control-loop", "database", "network", "sweep", "1 pods"} {
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("no %q in %v:\n%s", want, err, text)
		}
	}
}
