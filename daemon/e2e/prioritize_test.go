package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// A Job that waits shows its place in the queue, and can be put first.
func TestMoveUpInTheQueue(t *testing.T) {
	t.Parallel()
	d := start(t, "--allocatable", "cpu=1", "--network", "none")
	const asks = "resources: {requests: {cpu: 1}}"
	for _, name := range []string{"runs", "a", "b", "c"} {
		d.apply(jobManifest{name: name, container: asks}.String())
		if name == "runs" {
			d.running("runs", 1)
		}
	}
	placeOf := func(name string) string {
		t.Helper()
		out := d.jobctl("get", "jobs", name, "-o", "wide")
		fields := strings.Fields(out)
		if header := strings.Fields(strings.SplitN(out, "\n", 2)[0]); header[len(header)-1] != "QUEUE" {
			t.Fatalf("no column QUEUE:\n%s", out)
		}
		return fields[len(fields)-1]
	}
	place := func(name, want string) {
		t.Helper()
		d.eventually("the place of "+name, func() error {
			if is := placeOf(name); is != want {
				return fmt.Errorf("%s, want %s", is, want)
			}
			return nil
		})
	}
	for i, name := range []string{"a", "b", "c"} { // also those that came within a second
		place(name, fmt.Sprint(i+1))
	}
	first, second, third := "a", "b", "c"
	if out := d.jobctl("get", "jobs"); strings.Contains(out, "QUEUE") {
		t.Errorf("the columns of kubectl have changed:\n%s", out)
	}
	if out := d.jobctl("prioritize", "jobs/"+third); out != "job.batch/"+third+" prioritized\n" {
		t.Errorf("it says %q", out)
	}
	place(third, "1")
	place(first, "2")
	d.kill()
	d.serve()
	place(third, "1")
	d.jobctl("delete", "jobs/runs", "--grace-period=0", "--force")
	d.running(third, 1)
	d.jobctl("prioritize", second)
	place(second, "1")
	d.jobctl("prioritize", second, "--undo")
	place(second, "2")
	d.jobctl("delete", "jobs", "--all")
	d.apply(saying("over", "exit 0", "completions: 1", "restartPolicy: Never"))
	d.complete("over")
	if out, err := d.try("jobctl", nil, "prioritize", "jobs/over"); err == nil ||
		!strings.Contains(out, "job over has finished (Complete), so nothing of it waits") {
		t.Errorf("a finished Job: %v, %s", err, out)
	}
	d.apply(saying("first", "exit 0", "suspend: true", "restartPolicy: Never"))
	first = "first"
	if out, err := d.try("jobctl", nil, "annotate", "jobs/"+first, "jobd.dev/prioritized-at=soon"); err == nil || !strings.Contains(out, "must be a time") {
		t.Errorf("a wrong time: %v, %s", err, out)
	}
}
