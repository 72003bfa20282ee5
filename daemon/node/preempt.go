package node

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/load"
)

// preempt decides whether these pods, which are to start together, preempt pods of a lower priority.
func (n *Node) preempt(pods []*waiter) (Step, bool) {
	if len(pods) == 0 || slices.ContainsFunc(pods, func(w *waiter) bool { return w.Polite }) {
		return Step{}, false
	}
	last := lowest(pods)
	priority := last.Priority
	lower, ending := n.used.Below(priority)
	waits := !slices.ContainsFunc(pods, func(w *waiter) bool { return !w.nominated })
	if lower == 0 || waits && ending > 0 {
		return Step{}, false
	}
	var victims, paused []*bound
	var helps bool
	n.without(pods, func() { victims, paused, helps = n.victims(pods, last) })
	if !helps || waits && len(victims)+len(paused) == 0 {
		return Step{}, false
	}
	step := Step{For: pods[0].UID}
	for _, v := range victims {
		n.end(v, true)
		n.queueForCPU(v)
		step.Victims = append(step.Victims, v.UID)
	}
	for _, b := range paused {
		n.displace(b, uint32(max(1, n.now)))
		step.Pause = append(step.Pause, b.UID)
	}
	for _, w := range pods {
		if !w.nominated {
			n.nominate(w)
			step.Nominate = append(step.Nominate, w.UID)
		}
	}
	return step, true
}

// victims chooses which pods are preempted: as few as possible, first those of the lowest priority and of those the
// ones that started last, or were created last. Pods that are ending already are not among them. Of those that may be paused instead (Pod.Pausable), those
// whose CPU is enough are. False if even all together would not help.
func (n *Node) victims(pods []*waiter, last *waiter) (victims, paused []*bound, helps bool) {
	priority := last.Priority
	stays := n.used.From(priority)
	withheld := n.withheld(last)
	stays.Merge(&withheld)
	for _, w := range pods {
		if !n.fits(&stays, w.shape) {
			return nil, nil, false
		}
		stays.Add(w.shape.One, 1)
	}
	for _, c := range n.candidates(priority) {
		switch {
		case n.with(&stays, c.pods, false):
		case c.pausable() && n.with(&stays, c.pods, true):
			paused = append(paused, c.pods...)
		default:
			victims = append(victims, c.pods...)
		}
	}
	return victims, paused, true
}

// with adds pods to what stays, if they all fit: as they are or, with pause, without their CPU.
func (n *Node) with(stays *load.Sum, pods []*bound, pause bool) bool {
	keeps := (*bound).keeps
	if pause {
		keeps = (*bound).withoutCPU
	}
	for i, b := range pods {
		n.steps += 1 + len(b.shape.own) + len(b.shape.Matches)
		if !n.fits(stays, keeps(b)) {
			for _, added := range pods[:i] {
				stays.Add(keeps(added).One, -1)
			}
			return false
		}
		stays.Add(keeps(b).One, 1)
	}
	return true
}

// candidate is a pod that could be preempted, or a group that could be preempted together.
type candidate struct {
	pods     []*bound
	priority int32
	started  uint32
	created  uint32
	uid      types.UID
}

// candidates returns what could be preempted, the candidates most worth keeping first.
func (n *Node) candidates(priority int32) (all []*candidate) {
	together := map[*group]*candidate{}
	for _, b := range n.bound {
		if b.Priority >= priority || b.ending {
			continue
		}
		c := &candidate{priority: b.Priority, started: b.started, created: b.Created, uid: b.UID}
		if g := n.groupOf(b.Pod); g != nil && g.All {
			if together[g] == nil {
				together[g] = c
				all = append(all, c)
			}
			c = together[g]
		} else {
			all = append(all, c)
		}
		c.pods = append(c.pods, b)
		c.priority = max(c.priority, b.Priority)
		c.started = min(c.started, b.started)
		c.created = min(c.created, b.Created)
		c.uid = min(c.uid, b.UID)
	}
	slices.SortFunc(all, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.started, b.started), cmp.Compare(a.created, b.created),
			cmp.Compare(a.uid, b.uid))
	})
	for _, c := range all {
		slices.SortFunc(c.pods, func(a, b *bound) int { return cmp.Compare(a.UID, b.UID) })
	}
	return all
}

// pausable reports whether all of a candidate can be paused, and whether that gives others something.
func (c *candidate) pausable() bool {
	for _, b := range c.pods {
		if !b.Pausable || b.frozen || b.pausing() || b.shape.Ask[corev1.ResourceCPU] == 0 {
			return false
		}
	}
	return true
}

// lowest returns the first of those of the lowest priority.
func lowest(pods []*waiter) *waiter {
	return slices.MinFunc(pods, func(a, b *waiter) int { return cmp.Compare(a.Priority, b.Priority) })
}
