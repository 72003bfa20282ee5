package history

import (
	"math/rand/v2"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func run(memory int64) Job { return Job{Result: Complete, PodMemory: memory} }

func TestSuggestMemory(t *testing.T) {
	var hundred []Job
	for i := range 100 {
		hundred = append(hundred, run(int64(i+1)<<30))
	}
	for rule, c := range map[string]struct {
		jobs         []Job
		memory, peak int64
		runs         int
	}{
		"no runs: nothing":                           {},
		"what has failed says nothing":               {jobs: []Job{{Result: Failed, PodMemory: 1 << 30}}},
		"nor what nobody has measured":               {jobs: []Job{run(0)}},
		"one run and headroom, in whole mebibytes":   {[]Job{run(1 << 30)}, 1229 << 20, 1 << 30, 1},
		"at least some headroom":                     {[]Job{run(1 << 20)}, 33 << 20, 1 << 20, 1},
		"an older record has the peak of containers": {[]Job{{Result: Complete, Use: Use{PeakMemory: 1 << 20}}}, 33 << 20, 1 << 20, 1},
		"the largest five of a hundred do not count": {hundred, 114 << 30, 95 << 30, 100},
	} {
		memory, peak, runs := SuggestMemory(c.jobs)
		if memory != c.memory || peak != c.peak || runs != c.runs {
			t.Errorf("%s: %d %d %d, want %d %d %d", rule, memory, peak, runs, c.memory, c.peak, c.runs)
		}
	}
}

// Whatever runs there were, 95 of 100 have had less than is suggested, and no order of them matters.
func TestWhatIsSuggestedIsEnough(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var jobs []Job
		for range 1 + r.IntN(150) {
			jobs = append(jobs, run(1+r.Int64N(1<<uint(1+r.IntN(40)))))
		}
		memory, _, runs := SuggestMemory(jobs)
		less := 0
		for _, j := range jobs {
			if j.PodMemory < memory {
				less++
			}
		}
		if runs != len(jobs) || less*100 < 95*runs || memory%(1<<20) != 0 {
			t.Fatalf("%d of %d runs have had less than %d", less, runs, memory)
		}
		r.Shuffle(len(jobs), func(i, k int) { jobs[i], jobs[k] = jobs[k], jobs[i] })
		if again, _, _ := SuggestMemory(jobs); again != memory {
			t.Fatalf("%d and, in another order, %d", memory, again)
		}
	}
}

func TestRunsOf(t *testing.T) {
	for rule, c := range map[string]struct {
		of   metav1.ObjectMeta
		want Query
	}{
		"its name":                       {metav1.ObjectMeta{Name: "a"}, Query{Name: "a"}},
		"what its name was made from":    {metav1.ObjectMeta{Name: "a-x", GenerateName: "a-"}, Query{GenerateName: "a-"}},
		"its CronJob":                    {metav1.ObjectMeta{Name: "c-1", OwnerReferences: owner("CronJob", true)}, Query{CronJob: "c"}},
		"an owner of another kind":       {metav1.ObjectMeta{Name: "c-1", OwnerReferences: owner("Workflow", true)}, Query{Name: "c-1"}},
		"an owner that is not in charge": {metav1.ObjectMeta{Name: "c-1", OwnerReferences: owner("CronJob", false)}, Query{Name: "c-1"}},
	} {
		c.want.Limit = maxRuns
		if got := RunsOf(&c.of); got != c.want {
			t.Errorf("%s: %+v", rule, got)
		}
	}
}

func owner(kind string, controls bool) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: kind, Name: "c", Controller: ptr.To(controls)}}
}

func TestWasted(t *testing.T) {
	asks := func(name string, cpu float64, memory int64) Job {
		return Job{Namespace: "n", Name: name, Result: Complete, Asked: Resources{CPURequest: cpu, MemoryRequest: memory}, PodMemory: 100, PodSeconds: 10}
	}
	nightly := asks("backup-1", 1, 1100)
	nightly.CronJob, nightly.CPUSeconds = "backup", 4
	made := asks("a-x", 3, 200)
	made.GenerateName = "a-"
	jobs := []Job{
		nightly, nightly, made, asks("exact", 0, 100),
		{Name: "older", Result: Complete, Use: Use{CPUSeconds: 1, PeakMemory: 1}, PodSeconds: 1},
	}
	all := Wasted(jobs, false)
	if len(all) != 2 || all[0].Name != "cronjobs/backup" || all[0].Runs != 2 || all[0].MemorySeconds != 2*1000*10 || all[0].CPUSeconds != 2*6 ||
		all[0].CPU != .4 || all[1].Name != "a-*" || all[1].MemorySeconds != 100*10 {
		t.Errorf("by memory: %+v", all)
	}
	if all = Wasted(jobs, true); len(all) != 2 || all[0].Name != "a-*" || all[0].CPUSeconds != 30 {
		t.Errorf("by CPU: %+v", all)
	}
}

func TestSum(t *testing.T) {
	r := Sum([]Job{run(5), {Result: Complete, PodMemory: 3, PodSeconds: 10, Use: Use{CPUSeconds: 20}}, {Result: Failed, PodMemory: 9}, run(0)})
	if r != (Runs{Count: 2, Memory: 5, CPU: 2}) {
		t.Errorf("%+v", r)
	}
}
