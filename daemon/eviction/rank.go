package eviction

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/jobd/jobd/api/podspec"
)

const (
	// criticalPriority is that of pods which a kubelet never evicts (scheduling.SystemCriticalPriority).
	criticalPriority = 2_000_000_000
	// Pods that use less than this are not evicted: it would free nothing. A cluster would start them on another node;
	// here they would fail for nothing when something else takes the disk or the memory.
	leastBytes, leastInodes = 1 << 20, 1000
)

// Use is what a pod uses, and eviction would free.
type Use struct {
	Pod        *corev1.Pod
	Containers map[string]Size // what each uses itself: on the disk, what it has written into its root file system
	Volumes    Size            // what belongs to all of them
	// Partly says that it uses at least that: its files or sockets could not be counted in time.
	Partly bool
}

func (u *Use) total(s Signal) (sum int64) {
	sum = s.of(u.Volumes)
	for _, c := range u.Containers {
		sum += s.of(c)
	}
	return sum
}

// request returns what the pod has requested of that.
func (u *Use) request(s Signal) int64 {
	q := resourcehelper.PodRequests(u.Pod, resourcehelper.PodResourcesOptions{})[s.Resource()]
	return podspec.Amount(q)
}

// First returns the pod to evict first, and why in a kubelet's words: a pod that uses more than it has requested before one
// that does not, then the lowest priority, then the one that uses most beyond its request. Nil: evicting would not help. A pod
// that could not be measured in time counts as using more than any that could: otherwise it could fill the disk where nobody
// has looked yet, and others would be evicted for it.
func First(pods []Use, short Shortage) (*corev1.Pod, string) {
	least := short.Signal.of(Size{leastBytes, leastInodes})
	may := slices.DeleteFunc(slices.Clone(pods), func(u Use) bool {
		return priority(u.Pod) >= criticalPriority || u.total(short.Signal) < least && !u.Partly
	})
	if len(may) == 0 {
		return nil, ""
	}
	first := slices.MinFunc(may, func(a, b Use) int {
		beyondA, beyondB := a.total(short.Signal)-a.request(short.Signal), b.total(short.Signal)-b.request(short.Signal)
		return cmp.Or(last(beyondA <= 0 && !a.Partly)-last(beyondB <= 0 && !b.Partly), cmp.Compare(priority(a.Pod), priority(b.Pod)),
			last(!a.Partly)-last(!b.Partly), cmp.Compare(beyondB, beyondA),
			strings.Compare(string(a.Pod.UID), string(b.Pod.UID)))
	})
	return first.Pod, message(first, short)
}

// last puts those for whom something holds after the others.
func last(holds bool) int {
	if holds {
		return 1
	}
	return 0
}

func priority(p *corev1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

func message(u Use, short Shortage) string {
	name := short.Signal.Resource()
	quantity := func(n int64) *resource.Quantity {
		if short.Signal == nodeFsInodesFree {
			return resource.NewQuantity(n, resource.DecimalSI)
		}
		return resource.NewQuantity(n, resource.BinarySI)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "The node was low on resource: %s. Threshold quantity: %s, available: %s. ", name,
		quantity(short.Threshold), quantity(short.Available))
	for c := range podspec.Containers(&u.Pod.Spec) {
		request := c.Resources.Requests[name]
		if used := short.Signal.of(u.Containers[c.Name]); used > podspec.Amount(request) {
			fmt.Fprintf(&b, "Container %s was using %s, request is %s, has larger consumption of %s. ", c.Name,
				quantity(used), request.String(), name)
		}
	}
	if u.Partly {
		b.WriteString("What the pod has could not be counted in time. ")
	}
	return b.String()
}
