package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jobd/jobd/api/clusters"
)

// A Job that finds no room here in time runs in the cluster, once; one that does stays here. The daemon is killed while it goes.
func TestOverflow(t *testing.T) {
	t.Parallel()
	f := startForwarder(t, []string{"--runtime", "simulated", "--allocatable", "cpu=2"})
	overflow := func(name, cpu, after string) string {
		m := strings.ReplaceAll(forwarded(name, "1s", "0"), clusters.Manager("prod"), clusters.OverflowManager("prod"))
		m = strings.Replace(m, "labels: {app: forwarded}", "annotations: {"+clusters.OverflowAfterAnnotation+": "+after+"}", 1)
		return strings.Replace(m, `command: ["true"]`, `command: ["true"], resources: {requests: {cpu: "`+cpu+`"}}`, 1)
	}
	f.here.apply(overflow("room", "1", "1s"))
	f.here.jobctl("wait", "--for=condition=Complete", "jobs/room", "--timeout=4m")
	f.here.apply(strings.Replace(jobOf("busy", "true"), "  template:\n", "  template:\n    metadata: {annotations: {jobd.dev/simulate-duration: 10h}}\n", 1))
	f.here.running("busy", 1)
	f.here.jobctl("taint", "nodes", f.here.node(), "full=yes:NoSchedule")
	var names []string
	for i := range 8 {
		names = append(names, fmt.Sprint("over", i))
		f.here.apply(overflow(names[i], "1", fmt.Sprintf("%dms", 2000+200*i)))
	}
	f.here.apply(overflow("later", "1", "10h"))
	if out := f.here.jobctl("why", "jobs/later"); !strings.Contains(out, "it goes to the cluster prod") {
		t.Errorf("why says %s", out)
	}
	time.Sleep(2500 * time.Millisecond)
	f.here.kill()
	f.here.serve()
	for _, name := range names {
		f.here.jobctl("wait", "--for=condition=Complete", "jobs/"+name, "--timeout=4m")
		f.alike(name)
		if pods := f.here.pods(name); len(pods) != 1 {
			t.Errorf("%s has %d pods", name, len(pods))
		}
		if out := f.here.jobctl("history", name, "-o", "wide"); !strings.Contains(out, clusters.OverflowManager("prod")) {
			t.Errorf("the history of %s:\n%s", name, out)
		}
	}
	if f.there.job("room") != nil || f.there.job("later") != nil {
		t.Error("a Job that had room here, or still waits, is there too")
	}
}
