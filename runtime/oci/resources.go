package oci

import (
	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/jobd/jobd/api/podspec"
)

const (
	minShares, maxShares = 2, 262144
	quotaPeriod          = 100000  // microseconds
	minQuota             = 1000    // microseconds: the kernel takes no less
	maxQuota             = 1 << 43 // and not twice that
	maxMilli             = maxQuota / quotaPeriod * 1000
)

func resources(in Input) *specs.LinuxResources {
	cpuLimit, _ := limit(in, corev1.ResourceCPU)
	out := &specs.LinuxResources{
		Devices: deviceRules(in),
		CPU:     cpu(request(in.Container, corev1.ResourceCPU), cpuLimit),
		Memory:  memory(in),
	}
	if in.PidsLimit > 0 {
		out.Pids = &specs.LinuxPids{Limit: &in.PidsLimit}
	}
	if in.Host.CgroupV2 {
		// A container is one workload: if it runs out of memory, the kernel ends all of it, as with a kubelet.
		out.Unified = map[string]string{"memory.oom.group": "1"}
	}
	limitHugePages(out, in)
	return out
}

// Limits returns how much CPU and memory a container of a pod may use: what may change while it runs.
func Limits(pod *corev1.Pod, c *corev1.Container, host Host) *specs.LinuxResources {
	in := Input{Pod: pod, Container: c, Host: host}
	quota, _ := limit(in, corev1.ResourceCPU)
	return &specs.LinuxResources{CPU: cpu(request(c, corev1.ResourceCPU), quota), Memory: memory(in)}
}

// cpu converts a request into shares and a limit into a quota.
func cpu(ask, limit resource.Quantity) *specs.LinuxCPU {
	shares := uint64(min(max(min(podspec.MilliAmount(ask), maxMilli)*1024/1000, minShares), maxShares))
	out := &specs.LinuxCPU{Shares: &shares}
	if milli := min(podspec.MilliAmount(limit), maxMilli); milli > 0 {
		quota, period := max(milli*quotaPeriod/1000, minQuota), uint64(quotaPeriod)
		out.Quota, out.Period = &quota, &period
	}
	return out
}

// memory limits memory and swap together, so that a container at its limit does not continue in swap.
func memory(in Input) *specs.LinuxMemory {
	limit, ok := limit(in, corev1.ResourceMemory)
	if !ok || limit.Sign() <= 0 {
		return nil
	}
	bytes := podspec.Amount(limit)
	out := &specs.LinuxMemory{Limit: &bytes}
	if in.Host.SwapLimit {
		out.Swap = &bytes
	}
	return out
}

// request returns what a container requests; a limit without a request counts as one.
func request(c *corev1.Container, name corev1.ResourceName) resource.Quantity {
	if quantity, ok := c.Resources.Requests[name]; ok {
		return quantity
	}
	return c.Resources.Limits[name]
}

// oomScoreAdj determines which process the kernel ends first when the host runs out of memory: BestEffort pods first,
// Guaranteed ones last, and in between those that requested less first. It is not lower than jobd's own value unless
// jobd may lower it.
func oomScoreAdj(in Input) *int {
	total := in.Host.Memory
	var score int
	switch {
	case in.Pod.Status.QOSClass == corev1.PodQOSGuaranteed:
		score = -997
	case in.Pod.Status.QOSClass == corev1.PodQOSBestEffort || total == 0:
		score = 1000
	default:
		score = min(max(1000-int(1000*float64(memoryShare(in))/float64(total)), 3), 999)
	}
	if !in.Host.MayLowerOOMScore {
		score = max(score, in.Host.OOMScoreAdj)
	}
	return &score
}
