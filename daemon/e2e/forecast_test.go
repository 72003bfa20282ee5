package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestWhenAJobStartsAndEnds is what is expected of Jobs: by the deadlines of others, and by earlier runs of the same name.
func TestWhenAJobStartsAndEnds(t *testing.T) {
	t.Parallel()
	d := start(t, "--allocatable", "cpu=1", "--network", "none")
	const asks = "resources: {requests: {cpu: 1}}"
	says := func(want string, args ...string) {
		t.Helper()
		d.eventually(strings.Join(args, " "), func() error {
			if out := strings.Join(strings.Fields(d.jobctl(args...)), " "); !strings.Contains(out, want) {
				return fmt.Errorf("it does not say %q: %s", want, out)
			}
			return nil
		})
	}
	once := jobManifest{name: "nightly", container: asks, program: []string{"sleep", "15"}}.String()
	d.apply(once)
	d.complete("nightly")
	d.jobctl("delete", "jobs/nightly")
	d.apply(once)
	d.running("nightly", 1)
	d.apply(jobManifest{name: "next", container: asks}.String())
	says("(1 earlier run)", "get", "jobs", "nightly", "-o", "wide")
	says("(1 earlier run)", "why", "jobs/next")
	d.complete("nightly")
	d.jobctl("delete", "jobs/next", "--grace-period=0", "--force")

	d.apply(jobManifest{name: "bounded", spec: "activeDeadlineSeconds: 3000", container: asks}.String())
	d.running("bounded", 1)
	d.apply(jobManifest{name: "waits", container: asks}.String())
	says("Its start is expected by", "why", "jobs/waits")
	says("Its end is expected by", "why", "jobs/bounded")
	says("(by deadline)", "get", "jobs", "waits", "-o", "wide")

	// Those that others hold back, or their groups.
	member := `annotations: {jobd.dev/concurrency-group: db}`
	d.apply(jobManifest{name: "then", metadata: "annotations: {jobd.dev/after: bounded}", spec: "suspend: true"}.String())
	d.apply(jobManifest{name: "holds", metadata: member, spec: "activeDeadlineSeconds: 3000"}.String())
	d.running("holds", 1)
	d.apply(jobManifest{name: "second", metadata: member}.String())
	d.apply(jobManifest{name: "third", metadata: member}.String())
	for _, name := range []string{"then", "second"} {
		says("Its start is expected by", "why", "jobs/"+name)
		says("(by deadline)", "get", "jobs", name, "-o", "wide")
	}
	says("When it starts is unknown: jobs/second has neither a deadline nor an earlier run.", "why", "jobs/third")
	d.kill()
	d.serve()
	says("(by deadline)", "get", "jobs", "waits", "-o", "wide")
	d.jobctl("delete", "jobs", "--all", "--grace-period=0", "--force")

	d.apply(jobManifest{name: "unbounded", container: asks}.String())
	d.running("unbounded", 1)
	d.apply(jobManifest{name: "waits", container: asks}.String())
	says("Nobody knows when it starts", "why", "jobs/waits")
}
