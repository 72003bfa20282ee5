package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func prepareHost(_ *testing.T, d *daemon) string {
	d.flags = append(d.flags, "--host-root")
	return "/var/tmp"
}

// A command of the host runs once, in its directory, and what it has there stays, whatever is killed before, meanwhile and after.
func crashHost(c *matrix) {
	out, err := os.MkdirTemp("/var/tmp", "jobd-e2e-crash-host.") // /tmp is the pod's own
	if err != nil {
		c.t.Fatal(err)
	}
	defer os.RemoveAll(out)
	if err := os.WriteFile(filepath.Join(out, "stays"), []byte("stays"), 0o640); err != nil {
		c.t.Fatal(err)
	}
	const job = `
apiVersion: batch/v1
kind: Job
metadata: {name: host}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: jobd.dev/host, workingDir: OUT, command: [sh, -c, "echo run | tee -a runs; until test -e go; do sleep 0.1; done; echo went"]}]
`
	c.attempt(strings.ReplaceAll(job, "OUT", out), "apply", "-f", "-")
	c.notes(filepath.Join(out, "runs"), func(text string) bool { return text != "" })
	if err := os.WriteFile(filepath.Join(out, "go"), nil, 0o600); err != nil {
		c.t.Fatal(err)
	}
	if log := c.said(c.completes("host").Name, "c"); log != "run\nwent\n" {
		c.t.Errorf("its log is %q", log)
	}
	c.remove()
	for name, want := range map[string]string{"stays": "stays", "runs": "run\n"} {
		if got, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(got) != want {
			c.t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
