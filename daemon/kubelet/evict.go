package kubelet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/requests"
)

// Priority is the least priority of the pods that a node makes room for itself, those of the classes
// system-cluster-critical and system-node-critical (scheduling.SystemCriticalPriority). Other users' classes are below it.
const Priority = 2_000_000_000

// Class is the quality of service class of a pod, as an index into classes, in which those that a node evicts last come
// first.
type Class uint8

var classes = []corev1.PodQOSClass{corev1.PodQOSGuaranteed, corev1.PodQOSBurstable, corev1.PodQOSBestEffort}

// ClassOf returns the class of that name.
func ClassOf(qos corev1.PodQOSClass) Class { return Class(max(0, slices.Index(classes, qos))) }

// Need is how much of a resource a pod lacks.
type Need struct {
	Name   corev1.ResourceName
	Amount int64
}

// Victim is a pod that may be evicted, with what it has.
type Victim struct {
	UID   types.UID
	Class Class
	Has   requests.Resources
}

// Choose chooses pods that have what is needed: no Guaranteed one if others have enough, no Burstable one if those of
// BestEffort do. The rest of the needs is what all of them together do not have; then nobody is chosen.
func Choose(may []Victim, needs []Need) (victims []Victim, left []Need) {
	if left = without(needs, may...); len(left) > 0 {
		return nil, left
	}
	slices.SortFunc(may, smallest)
	for class := range Class(len(classes)) {
		var these, lower []Victim
		for _, v := range may {
			if v.Class == class {
				these = append(these, v)
			} else if v.Class > class {
				lower = append(lower, v)
			}
		}
		victims = append(victims, nearest(these, without(without(needs, victims...), lower...))...)
	}
	return victims, nil
}

// nearest chooses pods until they have what is needed, at each turn the one that has most nearly all of it.
func nearest(pods []Victim, needs []Need) (chosen []Victim) {
	for len(needs) > 0 && len(pods) > 0 {
		best := slices.MinFunc(pods, func(a, b Victim) int {
			return cmp.Or(cmp.Compare(distance(a, needs), distance(b, needs)), smallest(a, b))
		})
		chosen = append(chosen, best)
		needs = without(needs, best)
		pods = slices.DeleteFunc(slices.Clone(pods), func(v Victim) bool { return v.UID == best.UID })
	}
	return chosen
}

// distance is how far a pod is from having all of what is needed: the sum, over the resources, of the square of the part
// that it does not have.
func distance(v Victim, needs []Need) (sum float64) {
	for _, need := range needs {
		if lacks := need.Amount - v.has(need.Name); lacks > 0 {
			part := float64(lacks) / float64(need.Amount)
			sum += part * part
		}
	}
	return sum
}

// smallest compares pods by the memory and the CPU that they request, and then by their names.
func smallest(a, b Victim) int {
	return cmp.Or(cmp.Compare(a.has(corev1.ResourceMemory), b.has(corev1.ResourceMemory)),
		cmp.Compare(a.has(corev1.ResourceCPU), b.has(corev1.ResourceCPU)), cmp.Compare(a.UID, b.UID))
}

func (v Victim) has(name corev1.ResourceName) int64 {
	if name == corev1.ResourcePods {
		return 1
	}
	return v.Has[name]
}

// without returns what is needed beyond what pods have.
func without(needs []Need, pods ...Victim) (left []Need) {
	for _, need := range needs {
		for _, v := range pods {
			need.Amount -= v.has(need.Name)
		}
		if need.Amount > 0 {
			left = append(left, need)
		}
	}
	return left
}

// Less returns what is needed beyond what others give back.
func Less(needs []Need, back requests.Resources) (left []Need) {
	for _, need := range needs {
		if need.Amount -= back[need.Name]; need.Amount > 0 {
			left = append(left, need)
		}
	}
	return left
}

// List names needs in the words of a kubelet.
func List(needs []Need) string {
	var list strings.Builder
	for _, need := range needs {
		fmt.Fprintf(&list, "(res: %s, q: %d), ", need.Name, need.Amount)
	}
	return "[" + list.String() + "]"
}
