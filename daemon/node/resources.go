package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
)

// Resources are amounts by name: cpu in thousandths, all others in their own unit. Nil is none.
type Resources map[corev1.ResourceName]int64

// Amounts returns a list of the API as Resources, without those that are zero.
func Amounts(list corev1.ResourceList) Resources {
	if len(list) == 0 {
		return nil
	}
	out := make(Resources, len(list))
	for name, quantity := range list {
		amount := quantity.Value()
		if name == corev1.ResourceCPU {
			amount = quantity.MilliValue()
		}
		if amount > 0 {
			out[name] = amount
		}
	}
	return out
}

// requests returns what a pod takes of a node: the sum of its containers' requests, or the request of an init container
// where that is more (PodSpec.InitContainers).
func requests(pod *corev1.Pod) Resources {
	return Amounts(resource.PodRequests(pod, resource.PodResourcesOptions{}))
}

// String returns the same string for the same amounts.
func (r Resources) String() string {
	if len(r) == 0 {
		return ""
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r)) {
		fmt.Fprintf(&b, "%s=%d,", name, r[name])
	}
	return b.String()
}

func (r Resources) add(other Resources, times int64) {
	for name, amount := range other {
		r[name] += times * amount
	}
}
