package node

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Room is what a waiting pod waits for, in detail. Why says the same in a scheduler's words.
type Room struct {
	// Place is the pod's place among all pods that wait, from 1, and Waiting how many wait. A pod behind it may start
	// before it where that one fits and this one does not.
	Place, Waiting int
	Priority       int32
	// Nominated says that pods of a lower priority are being preempted for it.
	Nominated bool
	// Unfit is why this machine does not take the pod even if it is empty: it is cordoned, has a taint, or its labels
	// are not those that the pod selects.
	Unfit []string
	// Short are the resources of which too little is free.
	Short []Shortage
	// Ports are the ports of the host that another pod holds.
	Ports []int32
	// Full says that as many pods are on the node as it takes, which are MaxPods.
	Full    bool
	MaxPods int
	// Holders are the pods on the node that use one of these, those that use the most first.
	Holders []Holder
	// Gang is the pod's gang, nil for none.
	Gang *GangWait
}

// Shortage is a resource of which too little is free: cpu in thousandths, all others in their own unit.
type Shortage struct {
	Resource                   corev1.ResourceName
	Request, Free, Allocatable int64
	// Reserved is what is kept for nominated pods, and not free for that reason.
	Reserved int64
}

// Holder is a pod on the node.
type Holder struct {
	UID      types.UID
	Priority int32
	Started  time.Time // zero: not yet
	Ending   bool
	Requests Resources
}

// GangWait is what the gang of a waiting pod waits for.
type GangWait struct {
	// Key is the namespace and name of the PodGroup. Known says that it exists.
	Key   string
	Known bool
	// Need is how many pods of the gang have to start together, Bound how many are on the node, Waiting how many wait,
	// and Fitting how many of those fit now.
	Need, Bound, Waiting, Fitting int
}

// Room returns what a pod waits for; false if it does not wait.
func (n *Node) Room(uid types.UID) (Room, bool) {
	w, ok := n.waiting[uid]
	if !ok {
		return Room{}, false
	}
	r := Room{Place: n.placeOf(w), Waiting: len(n.waiting), Priority: w.Priority, Nominated: w.nominated, MaxPods: n.MaxPods}
	if g := w.line.gang; g != nil {
		r.Gang = &GangWait{Key: g.key, Known: g.known, Need: g.need(), Bound: g.bound, Waiting: len(g.line.queue)}
		if g.known && g.bound < g.need() {
			r.Gang.Fitting = n.countFitting(g.line)
		}
	}
	if r.Unfit = n.unfitReasons(&w.shape.terms); len(r.Unfit) == 0 && w.shape.crowded {
		r.Unfit = []string{fmt.Sprintf("pods on the machine and in the queue ask for %d different rules of affinity, anti-affinity and topology spread, and there may be %d", len(n.rules), maxRules)}
	}
	if len(r.Unfit) > 0 {
		return r, true
	}
	n.without([]*waiter{w}, func() { n.shortages(&r, w) })
	if len(r.Short) > 0 || len(r.Ports) > 0 || r.Full {
		r.Holders = n.holders(&r)
	}
	return r, true
}

// Places returns the place in the queue, from 1, of the first waiting pod of each owner; of tells whose pod it is, and
// returns an empty string for pods that are not of interest.
func (n *Node) Places(of func(types.UID) string) map[string]int {
	all := slices.SortedFunc(maps.Values(n.waiting), func(a, b *waiter) int {
		if a.Before(b) {
			return -1
		}
		return 1
	})
	places := map[string]int{}
	for i, w := range all {
		if owner := of(w.UID); owner != "" && places[owner] == 0 {
			places[owner] = i + 1
		}
	}
	return places
}

// First returns the pod that comes first in the queue; false if none of them waits.
func (n *Node) First(pods []types.UID) (types.UID, bool) {
	var first *waiter
	for _, uid := range pods {
		if w, ok := n.waiting[uid]; ok && (first == nil || w.Before(first)) {
			first = w
		}
	}
	if first == nil {
		return "", false
	}
	return first.UID, true
}

func (n *Node) placeOf(w *waiter) int {
	place := 1
	for _, other := range n.waiting {
		if other != w && other.Before(w) {
			place++
		}
	}
	return place
}

func (n *Node) shortages(r *Room, w *waiter) {
	taken := n.taken(w.Priority)
	r.Full = taken.pods >= n.MaxPods
	for _, p := range w.shape.ports {
		if taken.busy([]port{p}) {
			r.Ports = append(r.Ports, p.number)
		}
	}
	if n.Allocatable == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(w.shape.ask)) {
		free := n.Allocatable[name] - taken.amounts[name]
		if ask := w.shape.ask[name]; ask > free {
			r.Short = append(r.Short, Shortage{
				Resource: name, Request: ask, Free: max(free, 0), Allocatable: n.Allocatable[name],
				Reserved: taken.amounts[name] - n.used.all.amounts[name],
			})
		}
	}
}

// holders returns the pods that hold what is short.
func (n *Node) holders(r *Room) (all []Holder) {
	share := func(b *bound) (sum float64) {
		for _, s := range r.Short {
			if s.Allocatable > 0 {
				sum += float64(b.shape.ask[s.Resource]) / float64(s.Allocatable)
			}
		}
		return sum
	}
	ports := sets.New(r.Ports...)
	holds := func(b *bound) bool {
		return r.Full || share(b) > 0 || slices.ContainsFunc(b.shape.ports, func(p port) bool { return ports.Has(p.number) })
	}
	var holding []*bound
	for _, b := range n.bound {
		if holds(b) {
			holding = append(holding, b)
		}
	}
	slices.SortFunc(holding, func(a, b *bound) int {
		return cmp.Or(cmp.Compare(share(b), share(a)), cmp.Compare(a.started, b.started), cmp.Compare(a.UID, b.UID))
	})
	for _, b := range holding {
		all = append(all, Holder{UID: b.UID, Priority: b.Priority, Started: b.startedAt(), Ending: b.ending, Requests: b.shape.ask})
	}
	return all
}

// unfitReasons returns every reason for which the node takes no pod with these terms.
func (n *Node) unfitReasons(t *terms) (reasons []string) {
	if n.judge(t) == "" {
		return nil
	}
	cordon := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	if n.facts.cordoned && !tolerates(t.Tolerations, &cordon) {
		reasons = append(reasons, "the node is cordoned (spec.unschedulable)")
	}
	for i := range n.facts.taints {
		taint := &n.facts.taints[i]
		if taint.Effect == corev1.TaintEffectPreferNoSchedule || taint.Key == corev1.TaintNodeUnschedulable ||
			tolerates(t.Tolerations, taint) {
			continue
		}
		reasons = append(reasons, fmt.Sprintf("the node has the taint %s, which the pod does not tolerate", taint.ToString()))
	}
	if !n.selected(t) {
		wrong := false
		for _, key := range slices.Sorted(maps.Keys(t.NodeSelector)) {
			if is, ok := n.facts.labels[key]; !ok {
				reasons = append(reasons, fmt.Sprintf("nodeSelector asks for the label %s=%s, which the node does not have", key, t.NodeSelector[key]))
				wrong = true
			} else if is != t.NodeSelector[key] {
				reasons = append(reasons, fmt.Sprintf("nodeSelector asks for %s=%s, and the node's label is %q", key, t.NodeSelector[key], is))
				wrong = true
			}
		}
		if !wrong {
			reasons = append(reasons, "the required nodeAffinity does not match the node's labels")
		}
	}
	return reasons
}
