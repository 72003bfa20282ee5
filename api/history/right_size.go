package history

import (
	"cmp"
	"math"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/batch"
)

// RunsOf returns a query for the former runs of a Job: those of its CronJob, those whose names were generated from the same, or
// those of its name.
func RunsOf(j metav1.Object) Query {
	q := Query{Namespace: j.GetNamespace(), Limit: maxRuns}
	q.CronJob, _ = batch.CronJobOf(j)
	switch {
	case q.CronJob != "":
	case j.GetGenerateName() != "":
		q.GenerateName = j.GetGenerateName()
	default:
		q.Name = j.GetName()
	}
	return q
}

// maxRuns is of how many former runs, the latest, what they used is looked at.
const maxRuns = 100

// Runs are the runs of one kind that have completed, as far as it is known what they used. What failed may have failed early, and
// says nothing of what a run needs.
type Runs struct {
	Count int
	// Memory is the most memory of a pod, in bytes, and CPU the most CPUs that the pods of one run have used on average.
	Memory int64
	CPU    float64
}

// Sum sums up runs.
func Sum(jobs []Job) (r Runs) {
	for i := range jobs {
		if j := &jobs[i]; j.Result == Complete && j.memory() > 0 {
			r.Count++
			r.Memory, r.CPU = max(r.Memory, j.memory()), max(r.CPU, j.cpus())
		}
	}
	return r
}

// memory returns the most memory of a pod of a Job; that of a container if no more is known.
func (j *Job) memory() int64 { return max(j.PodMemory, j.PeakMemory) }

// cpus returns how many CPUs a pod of a Job has used on average; 0 if that is not known.
func (j *Job) cpus() float64 {
	if j.PodSeconds <= 0 {
		return 0
	}
	return j.CPUSeconds / j.PodSeconds
}

const (
	// enough of 100 runs have had enough with what is suggested, before the headroom.
	enough = 95
	// headroom is what is added, in hundredths, at least leastHeadroom and in whole units.
	headroom      = 20
	leastHeadroom = 32 << 20
	unit          = 1 << 20
)

// SuggestMemory returns how much memory the next run should ask for: the 95th percentile of the peaks of those that have completed,
// and headroom. It also returns that peak and how many runs there are; with none, it suggests nothing.
func SuggestMemory(jobs []Job) (memory, peak int64, runs int) {
	var peaks []int64
	for i := range jobs {
		if j := &jobs[i]; j.Result == Complete && j.memory() > 0 {
			peaks = append(peaks, j.memory())
		}
	}
	if len(peaks) == 0 {
		return 0, 0, 0
	}
	slices.Sort(peaks)
	peak = peaks[(len(peaks)*enough+99)/100-1]
	memory = peak + max(leastHeadroom, peak/100*headroom)
	return (memory + unit - 1) / unit * unit, peak, len(peaks)
}

// Waste is what the runs of one name have asked for and not used.
type Waste struct {
	Namespace, Name string
	Runs            int
	// Asked is the most that a pod asked for, Memory and CPU are the most that one used: its peak, and CPUs on average.
	Asked  Resources
	Memory int64
	CPU    float64
	// MemorySeconds are bytes times seconds and CPUSeconds CPUs times seconds that were requested and not used.
	MemorySeconds, CPUSeconds float64
}

// Wasted adds up by name what Jobs have asked for and not used; what ended before jobd kept what Jobs ask for is left out. It is in
// the order of what was wasted of memory or, with byCPU, of CPU.
func Wasted(jobs []Job, byCPU bool) (all []Waste) {
	type key struct{ namespace, cronJob, generateName, name string }
	at := map[key]int{}
	for i := range jobs {
		j := &jobs[i]
		if j.Asked == (Resources{}) || j.memory() <= 0 {
			continue
		}
		k, shown := key{namespace: j.Namespace, name: j.Name}, j.Name
		switch {
		case j.CronJob != "":
			k, shown = key{namespace: j.Namespace, cronJob: j.CronJob}, "cronjobs/"+j.CronJob
		case j.GenerateName != "":
			k, shown = key{namespace: j.Namespace, generateName: j.GenerateName}, j.GenerateName+"*"
		}
		n, ok := at[k]
		if !ok {
			n = len(all)
			at[k] = n
			all = append(all, Waste{Namespace: j.Namespace, Name: shown})
		}
		w := &all[n]
		w.Runs++
		w.Asked.Most(j.Asked)
		w.Memory, w.CPU = max(w.Memory, j.memory()), max(w.CPU, j.cpus())
		w.MemorySeconds += max(0, float64(j.Asked.MemoryRequest)-float64(j.memory())) * j.PodSeconds
		w.CPUSeconds += max(0, j.Asked.CPURequest*j.PodSeconds-j.CPUSeconds)
	}
	all = slices.DeleteFunc(all, func(w Waste) bool {
		return w.MemorySeconds == 0 && !byCPU || w.CPUSeconds == 0 && byCPU || math.IsNaN(w.MemorySeconds+w.CPUSeconds)
	})
	slices.SortFunc(all, func(a, b Waste) int {
		memory, cpu := cmp.Compare(b.MemorySeconds, a.MemorySeconds), cmp.Compare(b.CPUSeconds, a.CPUSeconds)
		if byCPU {
			memory, cpu = cpu, memory
		}
		return cmp.Or(memory, cpu, cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}
