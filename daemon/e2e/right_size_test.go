package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jobd/jobd/api/history"
)

// What runs of a name asked for and did not use is known to the history, to why, and to the next submit; also over a kill.
func TestRightSize(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none")
	hold := []string{"--image", "busybox:1.36", "--", "sh", "-c", `x=$(head -c 20000000 /dev/zero | tr "\0" x); sleep 1`}
	submit := func(args ...string) string {
		t.Helper()
		return d.jobctl(append(append([]string{"submit", "--name", "train", "--replace"}, args...), hold...)...)
	}
	if out, err := d.try("jobctl", nil, append([]string{"submit", "--name", "train", "--memory", "auto"}, hold...)...); err == nil ||
		!strings.Contains(out, "--memory auto: no run of train in the namespace default that completed is in the history") {
		t.Errorf("without a history: %v, %s", err, out)
	}
	for range 3 {
		submit("--memory", "300Mi", "--cpu", "100m")
	}
	d.kill()
	d.serve()
	var l history.List
	if err := json.Unmarshal([]byte(d.jobctl("history", "train", "-o", "json")), &l); err != nil || len(l.Items) != 3 {
		t.Fatalf("%v: %+v", err, l)
	}
	for _, j := range l.Items {
		if want := (history.Resources{CPURequest: .1, CPULimit: .1, MemoryRequest: 300 << 20, MemoryLimit: 300 << 20}); j.Asked != want || j.PodSeconds < 1 {
			t.Errorf("the history says %+v", j)
		}
	}
	if l.Items[0].PeakMemory == 0 {
		t.Skip("this kernel does not say what the peak of memory was (cgroup v2 before Linux 5.19)")
	}
	if out := d.jobctl("history", "--waste"); !strings.Contains(out, "MEMORY-WASTED") || !strings.Contains(out, "train   3      300Mi") {
		t.Errorf("the table is\n%s", out)
	}
	d.jobctl(append([]string{"submit", "--name", "train", "--replace", "--detach", "--memory", "20Ti"}, hold...)...)
	d.eventually("why says it", func() error {
		out := strings.Join(strings.Fields(d.jobctl("why", "jobs/train")), " ")
		if !strings.Contains(out, "It asks for 20Ti of memory, and 3 runs used at most") ||
			!strings.Contains(out, "jobctl history jobs/train --waste") {
			return fmt.Errorf("why: %s", out)
		}
		return nil
	})
	if out := submit("--memory", "auto"); !strings.Contains(out, "Mi, since the last 3 runs of train used at most") {
		t.Errorf("submit says %s", out)
	}
	if err := json.Unmarshal([]byte(d.jobctl("history", "train", "-o", "json")), &l); err != nil || l.Items[0].Result != history.Complete ||
		l.Items[0].Asked.MemoryLimit < 20<<20 || l.Items[0].Asked.MemoryLimit >= 300<<20 {
		t.Errorf("%v: the run with --memory auto is %+v", err, l.Items[0])
	}
}
