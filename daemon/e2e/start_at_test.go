package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jobd/jobd/api/batch"
)

// A Job that was told to start at a time starts then, over kill -9, or at once if jobd did not run then, and not before.
func TestStartAtATime(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none")
	image := []string{"--detach", "--image", "busybox:1.36", "--pull", "never"}
	submit := func(args ...string) string {
		out, err := d.try("jobctl", nil, append(append([]string{"submit"}, args[:len(args)-1]...), append(image, "--", "sh", "-c", args[len(args)-1])...)...)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return out
	}
	if out := submit("--name", "later", "--at", "+2h", "true"); !strings.Contains(out, "it starts at ") {
		t.Errorf("%s", out)
	}
	begin := time.Now()
	submit("--name", "soon", "--at", "+4s", "true")
	submit("--name", "first", "sleep 1")
	submit("--name", "both", "--at", "+3s", "--after", "first", "true")
	// What the views say.
	at := d.jobctl("get", "jobs", "later", "-o", "jsonpath={.metadata.annotations.jobd\\.dev/start-at}")
	if when, err := time.Parse(time.RFC3339, at); err != nil || when.Sub(begin) < 2*time.Hour-2*time.Second || when.Sub(begin) > 3*time.Hour {
		t.Errorf("%s: %v", at, err)
	}
	if out := d.jobctl("get", "jobs", "later", "-o", "wide"); !strings.Contains(out, "At:") || !strings.Contains(out, "(jobd.dev/start-at)") {
		t.Errorf("%s", out)
	}
	if out := d.jobctl("why", "jobs/later"); !strings.Contains(out, "waits: starts at "+at) || !strings.Contains(out, "jobctl resume jobs/later") {
		t.Errorf("%s", out)
	}
	// The moment comes while no daemon is there.
	d.kill()
	time.Sleep(time.Until(begin.Add(6 * time.Second)))
	d.serve()
	for _, name := range []string{"soon", "both"} {
		j := d.complete(name)
		due, _ := batch.StartAt(j.Annotations)
		if j.Status.StartTime.Time.Before(due) || len(d.pods(name)) != 1 || j.Annotations[batch.ResumedAnnotation] == "" {
			t.Errorf("%s at %v, wanted from %v on; %d pods", name, j.Status.StartTime, due, len(d.pods(name)))
		}
	}
	if out := d.jobctl("events", "--for", "jobs/soon"); strings.Count(out, "StartTime") != 1 {
		t.Errorf("%s", out)
	}
	// Without an interruption, from a script; and by hand.
	script := filepath.Join(t.TempDir(), "night.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n#SBATCH --begin=now+3\n#SBATCH -J night\necho done\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := d.try("jobctl", nil, "submit", "--name", "night", "--image", "busybox:1.36", "--pull", "never", script)
	if err != nil || !strings.Contains(out, "done") {
		t.Errorf("%v\n%s", err, out)
	}
	j := d.complete("night")
	if due, ok := batch.StartAt(j.Annotations); !ok || j.Status.StartTime.Time.Before(due) || j.Status.StartTime.Sub(due) > 2*time.Minute {
		t.Errorf("%v at %v", due, j.Status.StartTime)
	}
	d.jobctl("resume", "jobs/later")
	d.complete("later")

	// What is refused, by its name.
	for _, c := range []struct{ at, want string }{
		{"25:00", `--at: "25:00" is not a time such as`},
		{"2020-01-01T08:00", "--at: 2020-01-01T08:00 is past"},
		{"+1d", `--at: "+1d" is not + and a duration`},
	} {
		if out, err := d.try("jobctl", nil, append([]string{"submit", "--at", c.at}, image...)...); err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%s: %v\n%s", c.at, err, out)
		}
	}
	bad := failing("bad", "true")
	bad.metadata, bad.spec = `annotations: {jobd.dev/start-at: "22:00"}`, "suspend: true"
	running := failing("bad", "true")
	running.metadata = `annotations: {jobd.dev/start-at: "2026-12-01T22:00:00Z"}`
	for manifest, want := range map[string]string{
		bad.String():     "metadata.annotations[jobd.dev/start-at]: Invalid value: \"22:00\": must be a time with its zone",
		running.String(): "needs spec.suspend: true",
		fmt.Sprintf(`
apiVersion: batch/v1
kind: CronJob
metadata: {name: bad}
spec:
  schedule: "0 0 * * *"
  jobTemplate:
    metadata: {annotations: {jobd.dev/start-at: %q}}
    spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: c, image: "busybox:1.36"}]}}}
`, "2026-12-01T22:00:00Z"): "spec.jobTemplate.metadata.annotations[jobd.dev/start-at]: Invalid value",
	} {
		if out, err := d.try("jobctl", []byte(manifest), "create", "-f", "-"); err == nil || !strings.Contains(out, want) {
			t.Errorf("%v\n%s\nwant %s", err, out, want)
		}
	}
}
