package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestNobodyStarves has a Job that needs all of the machine, and others behind it that would fit before.
func TestNobodyStarves(t *testing.T) {
	t.Parallel()
	d := start(t, "--allocatable", "cpu=2", "--network", "none", "--starvation-after", "5s")
	asks := func(name, cpu string) {
		d.apply(jobManifest{name: name, container: "resources: {requests: {cpu: " + cpu + "}}"}.String())
	}
	says := func(name, want string) {
		t.Helper()
		d.eventually("why of "+name, func() error {
			if out := strings.Join(strings.Fields(d.jobctl("why", "jobs/"+name)), " "); !strings.Contains(out, want) {
				return fmt.Errorf("it does not say %q: %s", want, out)
			}
			return nil
		})
	}
	asks("a", "1")
	asks("b", "1")
	d.running("a", 1)
	d.running("b", 1)
	asks("large", "2")
	says("large", "what it needs is given to nobody behind it")
	d.jobctl("delete", "jobs/a", "--grace-period=0", "--force")
	asks("small", "1")
	says("small", "is kept for pods/large-")
	d.kill()
	d.serve()
	says("small", "is kept for pods/large-")
	d.jobctl("delete", "jobs/b", "--grace-period=0", "--force")
	d.running("large", 1)
	d.jobctl("delete", "jobs/large", "--grace-period=0", "--force")
	d.running("small", 1)
}
