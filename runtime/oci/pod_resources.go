package oci

import (
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/jobd/jobd/api/podspec"
)

// PodResources returns what the containers of a pod may take together (PodSpec.Resources, KEP-2837) with what their OCI
// runtime takes itself (PodSpec.Overhead, KEP-688), how many processes and threads they may have, 0 for no limit, and
// how many huge pages: what a container leaves in a volume in memory or in /dev/shm is the whole pod's, and is counted as such also when it
// has ended and nothing is limited, and those for debugging have no limits of their own. Of one that shares files with others is to be
// known what it has left with them. Nil: a container that runs once and alone has the same limits itself.
func PodResources(pod *corev1.Pod, pids int64, host Host) *specs.LinuxResources {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	pages := hugepages(host.HugePages, requests)
	asksForPages := slices.ContainsFunc(pages, func(l specs.LinuxHugepageLimit) bool { return l.Limit > 0 })
	limits, share := podLimits(pod), requests[corev1.ResourceCPU]
	if !resourcehelper.IsPodLevelResourcesSet(pod) && pids <= 0 && !asksForPages && len(pod.Spec.Overhead) == 0 && len(limits) == 0 &&
		alone(pod) && !podspec.SharesFiles(&pod.Spec) {
		return nil
	}
	if pod.Status.QOSClass == corev1.PodQOSBestEffort {
		share = resource.Quantity{} // its overhead does not put it before others of its class
	}
	out := &specs.LinuxResources{CPU: cpu(share, limits[corev1.ResourceCPU])}
	if limit := limits[corev1.ResourceMemory]; limit.Sign() > 0 {
		bytes := podspec.Amount(limit)
		out.Memory = &specs.LinuxMemory{Limit: &bytes}
	}
	if asksForPages {
		out.HugepageLimits = pages
	}
	if pids > 0 {
		out.Pids = &specs.LinuxPids{Limit: &pids}
	}
	return out
}

// alone reports whether a pod has no more than one container, which runs once.
func alone(pod *corev1.Pod) bool {
	return podspec.RunsOnce(&pod.Spec) && len(pod.Spec.EphemeralContainers) == 0
}

// podLimits returns how much CPU and memory a pod may take: what it says itself, or else the sum of its containers where each has a
// limit. Its overhead comes on top. A container that is alone has its limit itself.
func podLimits(pod *corev1.Pod) corev1.ResourceList {
	sums, out := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{}), corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		own := pod.Spec.Resources != nil && hasLimit(pod.Spec.Resources, name)
		each := !alone(pod) || len(pod.Spec.Overhead) > 0
		for c := range podspec.Workload(&pod.Spec) {
			each = each && hasLimit(&c.Resources, name)
		}
		if sum := sums[name]; !sum.IsZero() && (own || each) {
			out[name] = sum
		}
	}
	return out
}

func hasLimit(r *corev1.ResourceRequirements, name corev1.ResourceName) bool {
	quantity := r.Limits[name]
	return !quantity.IsZero()
}

// limit returns a container's own limit, or else the whole pod's: what looks for a limit in its cgroup finds that one.
func limit(in Input, name corev1.ResourceName) (resource.Quantity, bool) {
	if quantity, ok := in.Container.Resources.Limits[name]; ok {
		return quantity, true
	}
	if in.Pod.Spec.Resources == nil {
		return resource.Quantity{}, false
	}
	quantity, ok := in.Pod.Spec.Resources.Limits[name]
	return quantity, ok
}

// memoryShare returns what a container has asked for, and its part of what the pod has asked for beyond its containers.
func memoryShare(in Input) int64 {
	own := request(in.Container, corev1.ResourceMemory)
	if in.Pod.Spec.Resources == nil {
		return podspec.Amount(own)
	}
	whole, ok := in.Pod.Spec.Resources.Requests[corev1.ResourceMemory]
	if !ok {
		return podspec.Amount(own)
	}
	sum := resourcehelper.AggregateContainerRequests(in.Pod, resourcehelper.PodResourcesOptions{})[corev1.ResourceMemory]
	containers := int64(len(in.Pod.Spec.Containers))
	for i := range in.Pod.Spec.InitContainers {
		if podspec.IsSidecar(&in.Pod.Spec.InitContainers[i]) {
			containers++
		}
	}
	whole.Sub(sum)
	return podspec.Add(podspec.Amount(own), max(podspec.Amount(whole), 0)/containers)
}
