package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
)

// Pods of a Job start within its window only; what becomes of those that run when it closes is what the Job says. All of this holds over
// kill -9 in the moment in which windows open and close.
func TestWindows(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none")
	dir := t.TempDir()
	// Windows are in whole minutes: this is the next one that is not too near.
	moment := time.Now().UTC().Add(15 * time.Second).Truncate(time.Minute).Add(time.Minute)
	clock := func(from, to time.Duration) string {
		return moment.Add(from).Format("15:04") + "-" + moment.Add(to).Format("15:04")
	}
	apply := func(name, times, end, command string) {
		j := failing(name, command)
		j.metadata = fmt.Sprintf("annotations: {%s: %q, %s: UTC, %s: %s}",
			core.WindowAnnotation, times, core.WindowTimeZoneAnnotation, core.WindowEndAnnotation, end)
		j.container = "volumeMounts: [{name: d, mountPath: /data}]"
		j.pod = "volumes: [{name: d, hostPath: {path: " + dir + "}}]"
		d.apply(j.String())
	}
	job := func(name string) *batchv1.Job {
		return d.until(name, "there", func(*batchv1.Job) bool { return true })
	}
	ticks := func(name string) int {
		text, _ := os.ReadFile(filepath.Join(dir, name))
		return strings.Count(string(text), "tick")
	}
	tick := func(name string) string {
		return "while ! test -e /data/enough; do echo tick >>/data/" + name + "; sleep 0.1; done"
	}
	apply("opens", clock(0, time.Hour), core.WindowFinish, "true")
	apply("finishes", clock(-time.Hour, 0), core.WindowFinish, tick("finishes"))
	apply("pauses", clock(-time.Hour, 0), core.WindowPause, tick("pauses"))
	apply("stops", clock(-time.Hour, 0), core.WindowStop, tick("stops"))
	running := []string{"finishes", "pauses", "stops"}
	for _, name := range running {
		d.eventually(name+" runs", func() error {
			if ticks(name) == 0 {
				return fmt.Errorf("%v", d.pods(name))
			}
			return nil
		})
	}
	opens := moment.Format("Mon 15:04")
	if out := d.jobctl("why", "jobs/opens"); time.Now().Before(moment) && !strings.Contains(out, "waits: outside of its window, which opens "+opens) {
		t.Errorf("%s", out)
	}
	if out := d.jobctl("get", "jobs", "opens", "-o", "wide"); time.Now().Before(moment) &&
		(!strings.Contains(out, "Window:"+moment.Format("15:04")) || !strings.Contains(out, "(when its window opens)")) {
		t.Errorf("%s", out)
	}
	time.Sleep(time.Until(moment.Add(-time.Second)))
	d.kill()
	time.Sleep(time.Until(moment.Add(time.Second)))
	d.serve()

	if p := d.complete("opens"); p.Status.StartTime.Time.Before(moment) {
		t.Errorf("it has started at %v, before %v", p.Status.StartTime, moment)
	}
	for name, want := range map[string]string{"finishes": batch.StateRunning, "pauses": batch.StatePaused, "stops": batch.StateWaiting} {
		d.eventually(name+" is "+want, func() error {
			if got := batch.State(job(name)); got != want {
				return fmt.Errorf("%s: %+v", got, job(name).Status)
			}
			return nil
		})
	}
	d.eventually("the pods of what stops are gone", func() error {
		if pods := d.pods("stops"); len(pods) > 0 {
			return fmt.Errorf("%d", len(pods))
		}
		return nil
	})
	d.eventually("the pod of what pauses is frozen", func() error {
		if _, frozen := core.PausedSince(&d.pods("pauses")[0]); !frozen {
			return fmt.Errorf("%+v", d.pods("pauses")[0].Status.Conditions)
		}
		return nil
	})
	frozen, stopped, goes := ticks("pauses"), ticks("stops"), ticks("finishes")
	d.eventually("what finishes goes on", func() error {
		if ticks("finishes") < goes+10 {
			return fmt.Errorf("%d", ticks("finishes"))
		}
		return nil
	})
	if ticks("pauses") != frozen || ticks("stops") != stopped {
		t.Errorf("they go on: %d %d, %d %d", ticks("pauses"), frozen, ticks("stops"), stopped)
	}
	for _, name := range []string{"pauses", "stops"} {
		if out, err := d.try("jobctl", nil, "continue", "jobs/"+name); name == "pauses" && !strings.Contains(out, "is paused until its window opens") {
			t.Errorf("%v: %s", err, out)
		}
		if out := d.jobctl("why", "jobs/"+name); !strings.Contains(out, "which opens at "+moment.Add(23*time.Hour).Format(time.RFC3339)) {
			t.Errorf("%s", out)
		}
	}
	// It opens, since somebody changes it.
	for _, name := range []string{"pauses", "stops"} {
		d.jobctl("annotate", "--overwrite", "jobs/"+name, core.WindowAnnotation+"=00:00-24:00")
		before := ticks(name)
		d.eventually(name+" goes on", func() error {
			if ticks(name) <= before {
				return fmt.Errorf("%+v", job(name).Status)
			}
			return nil
		})
	}
	if err := os.WriteFile(filepath.Join(dir, "enough"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range running {
		if j := d.complete(name); j.Status.Failed != 0 {
			t.Errorf("%s: %+v", name, j.Status)
		}
	}
	if n := len(d.pods("pauses")); n != 1 || d.pods("pauses")[0].Status.Phase != corev1.PodSucceeded {
		t.Errorf("what was paused has %d pods", n)
	}

	// What is refused, by its name.
	for _, c := range []struct{ object, says, want string }{
		{"jobs/opens", core.WindowAnnotation + "=22:00-22:00", `annotations[jobd.dev/window]: Invalid value: "22:00-22:00": "22:00-22:00" never opens`},
		{"jobs/opens", core.WindowTimeZoneAnnotation + "=Moon", `annotations[jobd.dev/window-time-zone]: Invalid value: "Moon"`},
		{"jobs/opens", core.WindowEndAnnotation + "=kill", `annotations[jobd.dev/window-end]: Unsupported value: "kill"`},
		{"namespaces/default", core.WindowAnnotation + "=22:00", `annotations[jobd.dev/window]: Invalid value: "22:00"`},
		{"namespaces/default", core.WindowTimeZoneAnnotation + "=UTC", "annotations[jobd.dev/window]: Required value"},
	} {
		if out, err := d.try("jobctl", nil, "annotate", "--overwrite", c.object, c.says); err == nil || !strings.Contains(out, "metadata."+c.want) {
			t.Errorf("%v\n%s\nwant %s", err, out, c.want)
		}
	}
	// That of the namespace counts for a Job without one.
	d.jobctl("annotate", "namespaces/default", core.WindowTimeZoneAnnotation+"=UTC", core.WindowAnnotation+"="+clock(-2*time.Hour, -time.Hour))
	d.jobctl("create", "job", "held", "--image", "busybox:1.36", "--", "true")
	d.eventually("it waits for the window of the namespace", func() error {
		if out := d.jobctl("why", "jobs/held"); !strings.Contains(out, "waits: outside of its window") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	d.jobctl("annotate", "namespaces/default", core.WindowTimeZoneAnnotation+"-", core.WindowAnnotation+"-")
	d.complete("held")
}
