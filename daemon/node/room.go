package node

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/jobd/jobd/daemon/fairness"
	"github.com/jobd/jobd/daemon/fit"
	"github.com/jobd/jobd/daemon/relation"
)

// Room is what a waiting pod waits for, in detail. Why says the same in a scheduler's words.
type Room struct {
	// Place is the pod's place among all pods that wait, from 1, and Waiting how many wait. A pod behind it may start
	// before it where that one fits and this one does not.
	Place, Waiting int
	Priority       int32
	// Nominated says that pods of a lower priority are being preempted for it.
	Nominated bool
	// Node is the name of this machine.
	Node string
	// Unfit is why this machine does not take the pod even if it is empty, and Apart what other pods on it have to do with that.
	Unfit, Apart []fit.Obstacle
	// Short are the resources of which too little is free.
	Short []Shortage
	// Ports are the ports of the host that another pod holds.
	Ports []int32
	// Full says that as many pods are on the node as it takes, which are MaxPods.
	Full    bool
	MaxPods int
	// Holders are the pods on the node that use one of these, or keep it away, those that use the most first.
	Holders []Holder
	// Gang is the pod's gang, nil for none.
	Gang *GangWait
	// Fair is what decides about the place among pods of the same priority; nil if that is their age.
	Fair *FairPlace
	// Kept is the room that is kept for the pod or its gang, or from it for one that has waited for longer; nil if there is none.
	Kept *Kept
}

// FairPlace is what the account of a pod has used, and that which comes first of those that have pods that wait.
type FairPlace struct{ Own, First fairness.Account }

// Kept is room that is kept for a pod that has waited for too long.
type Kept struct {
	// First is the pod, or the first of its gang. Own says that it is the pod that is asked about, or one of the same gang.
	First types.UID
	Own   bool
	// Since is since when, and By by when it has that room by the deadlines of those that run; zero if they do not say.
	Since, By time.Time
}

// Shortage is a resource of which too little is free: cpu in thousandths, all others in their own unit.
type Shortage struct {
	Resource                   corev1.ResourceName
	Request, Free, Allocatable int64
	// Used is how many of the devices others than pods use, which are not free for that reason.
	Used int64
	// Reserved is what is kept for nominated pods, and not free for that reason, and Kept what is for the one that has waited for too long.
	Reserved, Kept int64
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

// Complete reports whether a gang need not be waited for: it is on the node, or enough of it fits.
func (g *GangWait) Complete() bool { return g.Known && g.Bound+min(g.Waiting, g.Fitting) >= g.Need }

// Room returns what a pod waits for; false if it does not wait.
func (n *Node) Room(uid types.UID) (Room, bool) {
	w, ok := n.waiting[uid]
	if !ok {
		return Room{}, false
	}
	r := Room{Place: n.placeOf(w), Waiting: len(n.waiting), Priority: w.Priority, Nominated: w.nominated, MaxPods: n.MaxPods}
	r.Node = n.facts.Labels[corev1.LabelHostname]
	if g := w.line.gang; g != nil {
		r.Gang = &GangWait{Key: strings.TrimPrefix(g.key, togetherAgain), Known: g.known, Need: g.need(), Bound: g.bound, Waiting: len(g.line.queue)}
		if g.known && g.bound < g.need() {
			r.Gang.Fitting = n.countFitting(g.line)
		}
	}
	r.Kept, r.Fair = n.keeping(w), n.fairPlace(w)
	if !w.shape.continues {
		r.Unfit = n.facts.Obstacles(&w.shape.terms)
	}
	if len(r.Unfit) == 0 && w.shape.crowded {
		r.Unfit = []fit.Obstacle{n.tooManyRules()}
	}
	if len(r.Unfit) > 0 {
		return r, true
	}
	var keep func(*bound) bool
	n.without([]*waiter{w}, func() {
		n.shortages(&r, w)
		if len(r.Short) > 0 || len(r.Ports) > 0 || r.Full {
			return
		}
		var matching, holding []int
		r.Apart, matching, holding = n.company(n.taken(w), n.current(w))
		keep = func(b *bound) bool {
			return slices.ContainsFunc(b.shape.matches, func(id int) bool { return slices.Contains(matching, id) }) ||
				slices.ContainsFunc(b.shape.own, func(own owned) bool {
					return own.Kind == relation.AntiAffinity && slices.Contains(holding, own.id)
				})
		}
	})
	if len(r.Short) > 0 || len(r.Ports) > 0 || r.Full || len(r.Apart) > 0 {
		r.Holders = n.holders(&r, keep)
	}
	return r, true
}

// Clear reports whether nothing is known that the pod waits for: it is about to start.
func (r *Room) Clear() bool {
	return len(r.Unfit)+len(r.Apart)+len(r.Short)+len(r.Ports) == 0 && !r.Full && (r.Gang == nil || r.Gang.Complete())
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
	taken := n.taken(w)
	r.Full = !w.shape.continues && taken.full(n.MaxPods)
	for _, p := range w.shape.ports {
		if taken.busy([]port{p}) {
			r.Ports = append(r.Ports, p.number)
		}
	}
	if n.Allocatable == nil {
		return
	}
	var kept Resources
	if from := n.keptFrom(w); from != nil {
		kept = from.needs.amounts
	}
	placeable := n.placeable([]*waiter{w})
	for _, name := range slices.Sorted(maps.Keys(w.shape.ask)) {
		free := n.freeFor(taken, w.shape, name)
		if !placeable {
			free = min(free, n.unplaced(w.shape, name))
		}
		if ask := w.shape.ask[name]; ask > free {
			r.Short = append(r.Short, Shortage{
				Resource: name, Request: ask, Free: max(free, 0), Allocatable: n.offered[name], Used: n.offered[name] - n.Allocatable[name],
				Reserved: taken.amounts[name] - n.used.all.amounts[name] - kept[name], Kept: kept[name],
			})
		}
	}
}

// holders returns the pods that hold what is short, or keep the pod away.
func (n *Node) holders(r *Room, keep func(*bound) bool) (all []Holder) {
	share := func(b *bound) (sum float64) {
		for _, s := range r.Short {
			if s.Allocatable > 0 {
				sum += float64(b.has(s.Resource)) / float64(s.Allocatable)
			}
		}
		return sum
	}
	ports := sets.New(r.Ports...)
	holds := func(b *bound) bool {
		return r.Full || share(b) > 0 || keep != nil && keep(b) ||
			slices.ContainsFunc(b.shape.ports, func(p port) bool { return ports.Has(p.number) })
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
		all = append(all, Holder{UID: b.UID, Priority: b.Priority, Started: b.startedAt(), Ending: b.ending, Requests: b.keeps().ask})
	}
	return all
}
