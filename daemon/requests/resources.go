// Package requests is what pods ask of a machine that can be counted: amounts of resources, ports of the host, and time.
//
// It knows no machine, and does nothing but add up. Package node decides by it who gets what.
package requests

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"
)

// Resources are amounts by name: cpu in thousandths, all others in their own unit. Nil is none.
type Resources map[corev1.ResourceName]int64

// Most is the largest amount: so much that no machine has it, and so little that the sum of those of 16,384 pods fits.
const Most = math.MaxInt64 >> 14

// Amounts returns a list of the API as Resources, without those that are zero. Amounts beyond what can be counted are the
// largest that can.
func Amounts(list corev1.ResourceList) Resources {
	if len(list) == 0 {
		return nil
	}
	out := make(Resources, len(list))
	for name, quantity := range list {
		if amount := Amount(name, &quantity); amount > 0 {
			out[name] = amount
		}
	}
	return out
}

// Amount returns a quantity of a resource in its unit, at most Most.
func Amount(name corev1.ResourceName, q *resource.Quantity) int64 {
	unit := int64(1)
	if name == corev1.ResourceCPU {
		unit = 1000
	}
	if q.CmpInt64(Most/unit) > 0 {
		return Most
	}
	if unit == 1000 {
		return q.MilliValue()
	}
	return q.Value()
}

// Of returns what a pod takes of a node: the sum of its containers' requests, or the request of an init container
// where that is more (PodSpec.InitContainers).
func Of(pod *corev1.Pod) Resources {
	return Amounts(podresource.PodRequests(pod, podresource.PodResourcesOptions{}))
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

// Add adds amounts so many times, and forgets what becomes nothing.
func (r Resources) Add(other Resources, times int64) {
	for name, amount := range other {
		if r[name] += times * amount; r[name] == 0 {
			delete(r, name)
		}
	}
}
