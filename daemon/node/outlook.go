package node

import (
	"slices"
	"time"

	"github.com/jobd/jobd/daemon/prospect"
)

// Outlook returns the pods on the node and the first that wait, that many.
func (n *Node) Outlook(most int) prospect.Outlook {
	o := prospect.Outlook{MaxPods: n.MaxPods, Allocatable: n.Allocatable}
	for _, b := range n.bound {
		is := b.tenure()
		p := prospect.Outlined{
			UID: b.UID, Pods: 1, Requests: b.keeps().Ask, Started: b.startedAt(), Limit: b.limit.Duration(),
			Frozen: b.frozen, PausedFor: time.Duration(is.pausedFor) * time.Second,
		}
		if is.ends != 0 {
			p.Ends = time.Unix(is.ends, 0)
		}
		o.Running = append(o.Running, p)
	}
	slices.SortFunc(o.Running, func(a, b prospect.Outlined) int { return a.Started.Compare(b.Started) })
	var first []*waiter // no more than that many, in order
	for _, w := range n.waiting {
		if n.unfit(w.shape) != "" {
			continue
		}
		if len(first) == most {
			if o.More++; !w.Before(first[most-1]) {
				continue
			}
			first = first[:most-1]
		}
		at, _ := slices.BinarySearchFunc(first, w, func(a, b *waiter) int {
			if a.Before(b) {
				return -1
			}
			return 1
		})
		first = slices.Insert(first, at, w)
	}
	gangs := map[*group]bool{}
	for _, w := range first {
		p := prospect.Outlined{UID: w.UID, Pods: 1, Requests: w.shape.Ask, Limit: w.limit.Duration()}
		if g := w.line.gang; g != nil && g.bound < g.need() {
			if gangs[g] {
				continue
			}
			gangs[g] = true
			needs, ok := n.demand(w.line)
			if !ok {
				continue
			}
			p.Pods, p.Requests = needs.Pods, needs.Amounts
		}
		o.Waiting = append(o.Waiting, p)
	}
	return o
}

// Outlined returns what is to be known of a pod that does not wait yet.
func (p *Pod) Outlined() prospect.Outlined {
	return prospect.Outlined{UID: p.UID, Pods: 1, Requests: p.shape.Ask, Limit: p.limit.Duration()}
}
