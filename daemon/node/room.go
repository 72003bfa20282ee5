package node

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/jobd/jobd/daemon/fit"
	"github.com/jobd/jobd/daemon/prospect"
	"github.com/jobd/jobd/daemon/relation"
	"github.com/jobd/jobd/daemon/requests"
)

// Room returns what a pod waits for; false if it does not wait.
func (n *Node) Room(uid types.UID) (prospect.Room, bool) {
	w, ok := n.waiting[uid]
	if !ok {
		return prospect.Room{}, false
	}
	r := prospect.Room{Place: n.placeOf(w), Waiting: len(n.waiting), Priority: w.Priority, Nominated: w.nominated, MaxPods: n.MaxPods}
	r.Node = n.facts.Labels[corev1.LabelHostname]
	if g := w.line.gang; g != nil {
		r.Gang = &prospect.GangWait{Key: strings.TrimPrefix(g.key, togetherAgain), Known: g.known, Need: g.need(), Bound: g.bound, Waiting: len(g.line.queue)}
		if g.known && g.bound < g.need() {
			r.Gang.Fitting = n.countFitting(g.line)
		}
	}
	r.Kept, r.Fair = n.keeping(w), n.fairPlace(w)
	if !w.shape.Continues {
		r.Unfit = n.facts.Obstacles(&w.shape.terms)
	}
	if len(r.Unfit) == 0 && w.shape.crowded {
		r.Unfit = []fit.Obstacle{relation.TooManyRules(n.rules.Len())}
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
			return slices.ContainsFunc(b.shape.Matches, func(id int) bool { return slices.Contains(matching, id) }) ||
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

func (n *Node) shortages(r *prospect.Room, w *waiter) {
	taken := n.taken(w)
	r.Full = !w.shape.Continues && taken.Full(n.MaxPods)
	for _, p := range w.shape.Ports {
		if taken.Ports.Busy([]requests.Port{p}) {
			r.Ports = append(r.Ports, p.Number)
		}
	}
	if n.Allocatable == nil {
		return
	}
	var kept requests.Resources
	if from := n.keptFrom(w); from != nil {
		kept = from.needs.Amounts
	}
	placeable := n.placeable([]*waiter{w})
	for _, name := range slices.Sorted(maps.Keys(w.shape.Ask)) {
		free := n.freeFor(taken, w.shape, name)
		if !placeable {
			free = min(free, n.cards.Unplaced(w.shape.Ask, name))
		}
		if ask := w.shape.Ask[name]; ask > free {
			r.Short = append(r.Short, prospect.Shortage{
				Resource: name, Request: ask, Free: max(free, 0), Allocatable: n.offered[name], Used: n.offered[name] - n.Allocatable[name],
				Reserved: taken.Amounts[name] - n.used.All.Amounts[name] - kept[name], Kept: kept[name],
			})
		}
	}
}

// holders returns the pods that hold what is short, or keep the pod away.
func (n *Node) holders(r *prospect.Room, keep func(*bound) bool) (all []prospect.Holder) {
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
			slices.ContainsFunc(b.shape.Ports, func(p requests.Port) bool { return ports.Has(p.Number) })
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
		all = append(all, prospect.Holder{UID: b.UID, Priority: b.Priority, Started: b.startedAt(), Ending: b.ending, Requests: b.keeps().Ask})
	}
	return all
}
