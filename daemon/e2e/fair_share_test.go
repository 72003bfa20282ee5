package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestAFairShare has one namespace with many Jobs, and another one whose only Job comes last. What both have used outlives the daemon.
func TestAFairShare(t *testing.T) {
	t.Parallel()
	d := start(t, "--allocatable", "cpu=1", "--network", "none", "--queue-order", "fair")
	d.jobctl("create", "namespace", "alice")
	d.jobctl("create", "namespace", "bob")
	d.jobctl("annotate", "namespace", "bob", "jobd.dev/share=2")
	if out, err := d.try("jobctl", nil, "annotate", "namespace", "alice", "jobd.dev/share=much"); err == nil || !strings.Contains(out, "must be a number") {
		t.Errorf("a wrong share: %v, %s", err, out)
	}
	asks := func(namespace, name string, program ...string) {
		d.apply(jobManifest{
			name: name, metadata: "namespace: " + namespace, container: "resources: {requests: {cpu: 1}}", program: program,
		}.String())
	}
	says := func(want string, args ...string) {
		t.Helper()
		d.eventually(strings.Join(args, " "), func() error {
			if out := strings.Join(strings.Fields(d.jobctl(args...)), " "); !strings.Contains(out, want) {
				return fmt.Errorf("it does not say %q: %s", want, out)
			}
			return nil
		})
	}
	runs := func(namespace, name string) {
		t.Helper()
		says("Running", "get", "pods", "-n", namespace, "-l", "job-name="+name)
	}
	asks("alice", "a0")
	runs("alice", "a0")
	for i := range 3 {
		asks("alice", fmt.Sprint("a", i+1))
	}
	asks("bob", "b")
	says("The order is fair: namespace bob has used", "why", "jobs/b", "-n", "bob")
	says("at place 1 of the 4", "why", "jobs/b", "-n", "bob")
	d.kill()
	d.serve()
	says("at place 1 of the 4", "why", "jobs/b", "-n", "bob")
	says("100% 3", "top", "--shares")
	d.jobctl("delete", "jobs/a0", "-n", "alice", "--grace-period=0", "--force")
	runs("bob", "b")
	says("namespace bob", "top", "--shares")
}
