package main

import (
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/jobd/jobd/api/history"
)

func TestTableOfWaste(t *testing.T) {
	asks := func(name string, cpu float64, memory int64) history.Job {
		return history.Job{
			Namespace: "n", Name: name, Result: history.Complete,
			Asked:     history.Resources{CPURequest: cpu, MemoryRequest: memory},
			PodMemory: 1 << 30, PodSeconds: 3600, Use: history.Use{CPUSeconds: 360},
		}
	}
	jobs := []history.Job{asks("train", 1.5, 30<<30), asks("exact", 12, 1<<30)}
	for rule, c := range map[string]struct {
		o    historyOptions
		out  string
		errs string
	}{
		"by memory": {historyOptions{waste: wasteMemory, limit: 100}, `
NAME    RUNS   MEMORY-REQUEST   MEMORY-USED   MEMORY-WASTED   CPU-REQUEST   CPU-USED   CPU-WASTED
train   1      30.0Gi           1024Mi        29.00Gi·h       1500m         100m       1.40CPU·h
`, ""},
		"by CPU, of which one line is shown": {historyOptions{waste: wasteCPU, limit: 1, everywhere: true, noHeaders: true}, `
n           exact   1     1024Mi   1024Mi   0.00Gi·h   12.0   100m   11.90CPU·h
`, "These are the first 1 of 2; --limit 0 shows all.\n"},
	} {
		streams, _, out, errOut := genericiooptions.NewTestIOStreams()
		err := c.o.printWaste(streams, jobs, false)
		if err != nil || strings.Join(strings.Fields(out.String()), " ") != strings.Join(strings.Fields(c.out), " ") || errOut.String() != c.errs {
			t.Errorf("%s: %v\n%s\n%s", rule, err, out, errOut)
		}
	}
	streams, _, _, errOut := genericiooptions.NewTestIOStreams()
	o := historyOptions{waste: wasteMemory}
	if err := o.printWaste(streams, jobs[1:], true); err != nil || !strings.Contains(errOut.String(), "No Jobs found that have asked for more memory") {
		t.Errorf("%v: %s", err, errOut)
	}
}
