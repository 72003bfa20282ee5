package node

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/load"
	"github.com/jobd/jobd/daemon/relation"
)

// Pods that are paused for others (Pod.Pausable) are displaced: they stay on the node with all that they have but for their CPU, and
// wait for that in the queue, as other pods wait for room. There they have the place that they had before they ran, so who comes after
// them does not pass them. They go on by Step.Continue, which takes their CPU at once.

// Displaced folds in since when a pod on the node is paused for others; the zero time says that it is not. With held it stays
// frozen for another reason, too, and nobody looks for CPU for it.
func (n *Node) Displaced(uid types.UID, since time.Time, held bool) {
	if b, ok := n.bound[uid]; ok {
		b.held = held
		n.displace(b, seconds(since))
		n.queueForCPU(b)
	}
}

// displace records since when the CPU of a bound pod is for others.
func (n *Node) displace(b *bound, since uint32) {
	if since == 0 && b.more == nil {
		return // it was not
	}
	was, is := b.pausing(), b.tenure()
	is.displaced = since
	b.change(is)
	n.countPausing(b, was)
}

// pausing reports whether a bound pod is about to be frozen, and to give its CPU to others.
func (b *bound) pausing() bool { return b.displaced() != 0 && !b.frozen }

func (b *bound) displaced() uint32 { return b.tenure().displaced }

func (n *Node) countPausing(b *bound, was bool) {
	switch is := b.pausing(); {
	case is && !was:
		n.used.By[b.Priority].Pausing++
	case was && !is:
		n.used.By[b.Priority].Pausing--
	}
}

// Pausable folds in whether a pod is paused for others instead of ended.
func (n *Node) Pausable(uid types.UID, pausable bool) {
	with := func(p *Pod) *Pod {
		changed := *p
		changed.Pausable = pausable
		return &changed
	}
	if b, ok := n.bound[uid]; ok {
		b.Pod = with(b.Pod)
	} else if w, ok := n.waiting[uid]; ok {
		w.Pod = with(w.Pod)
	}
}

// queueForCPU lets a displaced pod wait for its CPU once it is frozen, or takes it from the queue.
func (n *Node) queueForCPU(b *bound) {
	if n.continuing == 0 && b.displaced() == 0 {
		return // most pods, which are not to be looked for among all that wait
	}
	w := n.waiting[b.UID]
	if w != nil && !w.shape.Continues {
		return // it waited to be bound, and whoever has bound it takes it from the queue
	}
	waits := b.displaced() != 0 && b.frozen && !b.held && !b.ending
	if w != nil && (!waits || w.shape.key != cpuOnly(b).key) {
		n.leaveForCPU(w)
		w = nil
	}
	if !waits || w != nil {
		return
	}
	p := &Pod{
		UID: b.UID, Ahead: b.Ahead, Priority: b.Priority, Created: b.Created, Polite: b.Polite,
		limit: b.limit, own: b.own, grace: b.grace, shape: cpuOnly(b),
	}
	p.SetAccount(b.Account())
	if g := n.groupOf(b.Pod); g != nil && g.All {
		p.SetGroup(togetherAgain + g.key)
	}
	n.share(p)
	n.put(p)
	n.regather(p.Group())
}

// leaveForCPU takes a displaced pod from the queue.
func (n *Node) leaveForCPU(w *waiter) {
	n.leave(w)
	n.unshare(w.Pod)
	n.regather(w.Group())
}

// togetherAgain precedes the key of a group whose pods are preempted together, and so are continued together.
const togetherAgain = "continue "

// regather makes the displaced pods of a group wait for each other.
func (n *Node) regather(key string) {
	if !strings.HasPrefix(key, togetherAgain) {
		return
	}
	if g := n.group(key); len(g.members) > 0 {
		n.regroup(g, Group{Gang: true, MinCount: len(g.members)}, true)
	} else {
		n.DropGroup(key)
		n.forgetGroup(g)
	}
}

// cpuOnly is what a pod asks for that has all else: it fits wherever its CPU does.
func cpuOnly(b *bound) *shape {
	ask := b.cpu()
	key := relation.Brief(fmt.Sprintf("%s|continues|%v", ask, b.Polite))
	return &shape{key: key, base: key, One: load.One{Ask: ask, Continues: true}}
}

// continued lets displaced pods go on.
func (n *Node) continued(pods []*waiter) (uids []types.UID) {
	for _, w := range pods {
		b := n.bound[w.UID]
		n.leaveForCPU(w)
		n.displace(b, 0)
		n.freeze(b, false)
		n.recharge(b, false)
		uids = append(uids, b.UID)
	}
	return uids
}

// Continues reports whether a pod waits for its CPU only, since it is paused for others.
func (n *Node) Continues(uid types.UID) bool {
	w, ok := n.waiting[uid]
	return ok && w.shape.Continues
}
