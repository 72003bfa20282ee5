package picture

import (
	"math"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/picture"
)

// maxBins is how many bins a histogram has at most.
const maxBins = 40

// histograms counts the pods that have ended by themselves.
func (d *drawer) histograms(j *batchv1.Job) *picture.Histograms {
	var durations, cpus, memories []float32
	var seconds float64
	for i := range d.all {
		t := &d.all[i]
		seconds += float64(t.cpu)
		if t.state == picture.Stopped || t.start == 0 {
			continue
		}
		durations = append(durations, float32(t.seconds()))
		if t.cpu > 0 {
			cpus = append(cpus, t.cpu/float32(max(1, t.seconds())))
		}
		if t.memory > 0 {
			memories = append(memories, float32(t.memory)*1024)
		}
	}
	d.job.CPUSeconds = math.Round(seconds*1000) / 1000
	out := &picture.Histograms{
		Duration: histogram(durations, 10, 1), CPU: histogram(cpus, 10, 0), Memory: histogram(memories, 2, 0),
	}
	if j == nil {
		return out
	}
	var cpu, memory, cpuLimit, memoryLimit float64
	limited := true
	for _, c := range j.Spec.Template.Spec.Containers {
		cpu += c.Resources.Requests.Cpu().AsApproximateFloat64()
		limit := c.Resources.Limits[corev1.ResourceCPU]
		limited = limited && !limit.IsZero()
		cpuLimit += limit.AsApproximateFloat64()
		memory = max(memory, c.Resources.Requests.Memory().AsApproximateFloat64())
		memoryLimit = max(memoryLimit, c.Resources.Limits.Memory().AsApproximateFloat64())
	}
	if !limited {
		cpuLimit = 0
	}
	if out.CPU != nil {
		out.CPU.Request, out.CPU.Limit = cpu, cpuLimit
	}
	if out.Memory != nil {
		out.Memory.Request, out.Memory.Limit = memory, memoryLimit
	}
	return out
}

// histogram counts values in bins of a round width: 1, 2 or 5 times a power of 10, or a power of 2, and not
// below least. It sorts them.
func histogram(values []float32, base, least float64) *picture.Histogram {
	if len(values) == 0 {
		return nil
	}
	slices.Sort(values)
	at := func(p int) float64 { return round(float64(values[(len(values)-1)*p/100])) }
	out := &picture.Histogram{Median: at(50), P90: at(90), Most: at(100)}
	top := float64(values[len(values)-1])
	out.Width = wide(max(least, top/(maxBins-1)), base)
	for _, v := range values {
		bin := min(int(float64(v)/out.Width), maxBins-1)
		for len(out.Counts) <= bin {
			out.Counts = append(out.Counts, 0)
		}
		out.Counts[bin]++
	}
	return out
}

// wide returns the narrowest round width that is not below a given one.
func wide(least, base float64) float64 {
	if least <= 0 {
		return 1
	}
	if base == 2 {
		return math.Exp2(math.Ceil(math.Log2(least)))
	}
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= least {
			return m * power
		}
	}
	return 10 * power
}

// round keeps six digits.
func round(v float64) float64 {
	if v == 0 {
		return 0
	}
	power := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-5)
	return math.Round(v/power) * power
}
