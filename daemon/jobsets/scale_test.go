package jobsets_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/runtime/simulated"
)

// cost returns what it costs a daemon, store and all, until a JobSet is complete: MB that are allocated, and revisions that are written.
func cost(t *testing.T, spec string) (mb, revisions float64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		first := w.Store.Version()
		w.CreateJobSet("s", spec)
		time.Sleep(time.Hour)
		runtime.ReadMemStats(&after)
		if got := state(w.JobSet("s")); !strings.HasSuffix(got, " Completed") {
			t.Error(got)
		}
		mb, revisions = float64(after.TotalAlloc-before.TotalAlloc)/(1<<20), float64(w.Store.Version()-first)
	})
	return mb, revisions
}

// tenPods is a JobSet of so many Jobs of ten pods each.
func tenPods(jobs int, duration string) string {
	return fmt.Sprintf(`{replicatedJobs: [{name: a, replicas: %d, template: {spec: {completions: 10, parallelism: 10, template: {
		metadata: {annotations: {%s: %s}}, spec: {restartPolicy: Never}}}}}]}`, jobs, simulated.Duration, duration)
}

// chain is a JobSet of so many groups, each of which waits for the one before.
func chain(groups int, duration string) string {
	var all []string
	for i := range groups {
		depends := ""
		if i > 0 {
			depends = fmt.Sprintf("dependsOn: [{name: g%d, status: %s}], ", i-1, []string{"Ready", "Complete"}[i%2])
		}
		all = append(all, fmt.Sprintf("{name: g%d, %s%s}", i, depends, pods(duration, "0")))
	}
	return "{replicatedJobs: [" + strings.Join(all, ", ") + "]}"
}

// The cost of a JobSet is in proportion to its Jobs: a thousand of them, with ten thousand pods, cost ten times what a hundred do.
func TestAThousandJobs(t *testing.T) {
	if testing.Short() {
		t.Skip("ten thousand pods take a while")
	}
	mb, revisions := cost(t, tenPods(100, "1s"))
	mb10, revisions10 := cost(t, tenPods(1000, "1s"))
	t.Logf("100 Jobs: %.0f MB, %.0f revisions; 1000: %.0f MB, %.0f", mb, revisions, mb10, revisions10)
	if mb10 > 13*mb || revisions10 > 11*revisions {
		t.Error("ten times as many Jobs cost much more than ten times as much")
	}
}

// Each group of a chain is one step more: as many revisions, and at each the object of the JobSet, which tells of all groups, is written as
// a whole. That is what it allocates, and no more.
func TestAChainOfAHundredGroups(t *testing.T) {
	mb, revisions := cost(t, chain(25, "1s"))
	mb4, revisions4 := cost(t, chain(100, "1s"))
	t.Logf("25 groups: %.0f MB, %.0f revisions; 100: %.0f MB, %.0f", mb, revisions, mb4, revisions4)
	if revisions4 > 4.4*revisions {
		t.Error("four times as many groups take more than four times as many revisions")
	}
	const ofAGroup = 0.006 // MB, of all that is done with the object in one step
	if mb4 > 4*mb+100*100*ofAGroup {
		t.Error("a step costs more than its object is large")
	}
}
