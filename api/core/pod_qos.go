package core

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
)

// PodQOS returns the quality of service class: Guaranteed when every container limits cpu and memory to what it asks
// for, BestEffort when none asks for or limits anything, else Burstable. Other resources do not count.
func PodQOS(spec *corev1.PodSpec) corev1.PodQOSClass {
	var all []*corev1.ResourceRequirements
	if spec.Resources != nil && (anyCompute(spec.Resources.Requests) || anyCompute(spec.Resources.Limits)) {
		all = append(all, spec.Resources) // where the whole Pod has resources, only they count
	} else {
		for c := range podspec.Containers(spec) {
			all = append(all, &c.Resources)
		}
	}
	best, guaranteed := true, len(all) > 0
	for _, r := range all {
		best = best && !anyCompute(r.Requests) && !anyCompute(r.Limits)
		guaranteed = guaranteed && limitsAllItAsksFor(r)
	}
	switch {
	case best:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

var computeResources = [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

func anyCompute(list corev1.ResourceList) bool {
	return slices.ContainsFunc(computeResources[:], func(name corev1.ResourceName) bool {
		q, ok := list[name]
		return ok && !q.IsZero()
	})
}

func limitsAllItAsksFor(r *corev1.ResourceRequirements) bool {
	for _, name := range computeResources {
		limit, limited := r.Limits[name]
		request, requested := r.Requests[name]
		if !limited || limit.IsZero() || requested && request.Cmp(limit) != 0 {
			return false
		}
	}
	return true
}
