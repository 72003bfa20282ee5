package node

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/requests"
)

// criticalPriority is the least priority of the pods that a node makes room for itself, those of the classes
// system-cluster-critical and system-node-critical (scheduling.SystemCriticalPriority). Other users' classes are below it.
const criticalPriority = 2_000_000_000

// Critical reports whether the node evicts other pods for a pod that is bound to it, where there is no room.
func (p *Pod) Critical() bool { return p.Priority >= criticalPriority }

// class is the quality of service class of a pod, as an index into classes, in which those that a node evicts last come
// first.
type class uint8

var classes = []corev1.PodQOSClass{corev1.PodQOSGuaranteed, corev1.PodQOSBurstable, corev1.PodQOSBestEffort}

func classOf(qos corev1.PodQOSClass) class { return class(max(0, slices.Index(classes, qos))) }

// need is how much of a resource a pod lacks.
type need struct {
	name   corev1.ResourceName
	amount int64
}

// MakeRoom chooses which pods the node evicts to take a critical pod whose manifest names it (PodSpec.NodeName), as a
// kubelet does. The room is kept until the pod is bound or gone. If there are no victims, and no refusal, what ends
// already is enough. A refusal is why room does not help, or cannot be made; then nothing is to be evicted.
func (n *Node) MakeRoom(p *Pod) (victims []types.UID, refusal *Refusal) {
	if refusal = n.unsuitable(p); refusal != nil {
		return nil, refusal
	}
	needs := n.needs(p)
	var may []*bound
	for _, b := range n.bound {
		if b.pausing() {
			needs = lessCPU(needs, b)
		}
		switch {
		case b.ending:
			needs = without(needs, b)
		case !b.Critical() || b.Priority < p.Priority:
			may = append(may, b)
		}
	}
	slices.SortFunc(may, smallest)
	chosen, left := displace(may, needs)
	if len(left) > 0 {
		return nil, &Refusal{
			Reason: "UnexpectedAdmissionError",
			Message: "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of " +
				"pods to preempt: no set of running pods found to reclaim resources: " + listNeeds(left),
		}
	}
	for _, b := range chosen {
		n.end(b, true)
		n.queueForCPU(b)
		victims = append(victims, b.UID)
	}
	if n.expected == nil {
		n.expected = map[types.UID]*Pod{}
	}
	if n.expected[p.UID] == nil {
		n.expected[p.UID] = p
		n.take(p)
		n.reserved.add(p, 1)
	}
	return victims, nil
}

// forgetExpected frees the room that is kept for a critical pod.
func (n *Node) forgetExpected(uid types.UID) {
	if p, ok := n.expected[uid]; ok {
		delete(n.expected, uid)
		n.reserved.add(p, -1)
		n.drop(p)
		n.unblock()
	}
}

// displace chooses pods that have what is needed: no Guaranteed one if others have enough, no Burstable one if those of
// BestEffort do. The rest of the needs is what all of them together do not have.
func displace(may []*bound, needs []need) (victims []*bound, left []need) {
	if left = without(needs, may...); len(left) > 0 {
		return nil, left
	}
	for class := range class(len(classes)) {
		var these, lower []*bound
		for _, b := range may {
			if b.class == class {
				these = append(these, b)
			} else if b.class > class {
				lower = append(lower, b)
			}
		}
		victims = append(victims, nearest(these, without(without(needs, victims...), lower...))...)
	}
	return victims, nil
}

// nearest chooses pods until they have what is needed, at each turn the one that has most nearly all of it.
func nearest(pods []*bound, needs []need) (chosen []*bound) {
	for len(needs) > 0 && len(pods) > 0 {
		best := slices.MinFunc(pods, func(a, b *bound) int {
			return cmp.Or(cmp.Compare(distance(a, needs), distance(b, needs)), smallest(a, b))
		})
		chosen = append(chosen, best)
		needs = without(needs, best)
		pods = slices.DeleteFunc(slices.Clone(pods), func(b *bound) bool { return b == best })
	}
	return chosen
}

// distance is how far a pod is from having all of what is needed: the sum, over the resources, of the square of the part
// that it does not have.
func distance(b *bound, needs []need) (sum float64) {
	for _, need := range needs {
		if lacks := need.amount - b.has(need.name); lacks > 0 {
			part := float64(lacks) / float64(need.amount)
			sum += part * part
		}
	}
	return sum
}

// smallest compares pods by the memory and the CPU that they request, and then by their names.
func smallest(a, b *bound) int {
	return cmp.Or(cmp.Compare(a.has(corev1.ResourceMemory), b.has(corev1.ResourceMemory)),
		cmp.Compare(a.has(corev1.ResourceCPU), b.has(corev1.ResourceCPU)), cmp.Compare(a.UID, b.UID))
}

func (b *bound) has(name corev1.ResourceName) int64 {
	if name == corev1.ResourcePods {
		return 1
	}
	return b.keeps().ask[name]
}

// without returns what is needed beyond what pods have.
func without(needs []need, pods ...*bound) (left []need) {
	for _, need := range needs {
		for _, b := range pods {
			need.amount -= b.has(need.name)
		}
		if need.amount > 0 {
			left = append(left, need)
		}
	}
	return left
}

// lessCPU returns what is needed beyond the CPU of a pod.
func lessCPU(needs []need, b *bound) (left []need) {
	for _, need := range needs {
		if need.amount -= b.cpu()[need.name]; need.amount > 0 {
			left = append(left, need)
		}
	}
	return left
}

func listNeeds(needs []need) string {
	var list strings.Builder
	for _, need := range needs {
		fmt.Fprintf(&list, "(res: %s, q: %d), ", need.name, need.amount)
	}
	return "[" + list.String() + "]"
}

// needs returns what a pod that is bound to the node lacks, in a kubelet's order.
func (n *Node) needs(p *Pod) (needs []need) {
	pods, expected := n.used.all.pods, requests.Resources{}
	for uid, other := range n.expected {
		if uid != p.UID {
			pods++
			expected.Add(other.shape.ask, 1)
		}
	}
	if pods >= n.MaxPods {
		needs = append(needs, need{corev1.ResourcePods, int64(pods + 1 - n.MaxPods)})
	}
	if n.Allocatable == nil {
		return needs
	}
	for _, name := range slices.SortedFunc(maps.Keys(p.shape.ask), kubeletOrder) {
		_, known := n.Allocatable[name]
		if !known && rank(name) == len(firstResources) {
			continue // as if it were not asked for
		}
		if lacks := p.shape.ask[name] + expected[name] - n.free(&n.used.all, name); lacks > 0 {
			needs = append(needs, need{name, lacks})
		}
	}
	return needs
}
