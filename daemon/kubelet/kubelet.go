// Package kubelet is how a kubelet treats pods that are bound to its node and for which there is no room: the words in which it refuses
// them, and which others it evicts for a critical one.
//
// Everything is a pure function. Package node says what is lacking, and which pods there are.
package kubelet

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Refusal is why the node does not take a pod that is bound to it: what a kubelet writes into the status of the pod,
// which has failed with that.
type Refusal struct{ Reason, Message string }

// OutOf is the refusal of a pod that asks for more of a resource than is free.
func OutOf(name corev1.ResourceName, ask, used, capacity int64) *Refusal {
	return &Refusal{
		Reason: "OutOf" + string(name),
		Message: fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
			name, ask, used, capacity),
	}
}

// Failed is the refusal of a pod that does not suit the node otherwise.
func Failed(predicate, why string) *Refusal {
	return &Refusal{Reason: predicate, Message: fmt.Sprintf("Predicate %s failed: %s", predicate, why)}
}

// firstResources are what a kubelet looks at first, in this order.
var firstResources = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
}

// Extended reports whether a resource is one of those that a kubelet looks at last.
func Extended(name corev1.ResourceName) bool { return rank(name) == len(firstResources) }

func rank(name corev1.ResourceName) int {
	if i := slices.Index(firstResources, name); i >= 0 {
		return i
	}
	return len(firstResources)
}

// Order compares resources by the order in which a kubelet looks at them.
func Order(a, b corev1.ResourceName) int {
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
}
