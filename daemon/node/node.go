// Package node decides which pending pods this machine takes on, and when: what a cluster's scheduler does, for one node.
package node

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

// Node is the room that this machine has, who has it, and who waits for it. The zero value has room for nobody.
//
// Pods that are alike wait in one line, and a line that cannot go on is not looked at again before something has changed
// in its favour: a step costs the same for ten pods that wait as for ten thousand. A line that waits does not hold up
// others for which there is room, as in a cluster.
type Node struct {
	// MaxPods is how many pods may be bound to the node and not yet ended.
	MaxPods int
	// Allocatable is what bound pods may ask for together. Nil: anything.
	Allocatable Resources

	facts  facts
	shapes map[string]*shape
	bound  map[types.UID]*bound
	used   levels
	// reserved is what is kept for pods that others make way for.
	reserved levels

	waiting map[types.UID]*waiter
	lines   map[*shape]*line
	groups  map[string]*group
	ready   lineHeap
	blocked map[*line]struct{}
	changed []types.UID
}

// facts are what others say of the node.
type facts struct {
	cordoned bool
	taints   []corev1.Taint
	labels   map[string]string
}

// bound is a pod that has its room.
type bound struct {
	*Pod
	started time.Time
	ending  bool
}

// New gives a node with room for that many pods, and for what they ask.
func New(maxPods int, allocatable Resources) *Node {
	return &Node{
		MaxPods: maxPods, Allocatable: allocatable,
		shapes: map[string]*shape{}, bound: map[types.UID]*bound{}, used: newLevels(), reserved: newLevels(),
		waiting: map[types.UID]*waiter{}, lines: map[*shape]*line{}, groups: map[string]*group{},
		blocked: map[*line]struct{}{},
	}
}

// Describe takes in what the node's object says: the cordon, taints and labels.
func (n *Node) Describe(node *corev1.Node) {
	now := facts{node.Spec.Unschedulable, node.Spec.Taints, node.Labels}
	if n.facts.cordoned == now.cordoned && maps.Equal(n.facts.labels, now.labels) && equality.Semantic.DeepEqual(n.facts.taints, now.taints) {
		return
	}
	n.facts = now
	for _, s := range n.shapes {
		s.judged = false
	}
	n.changed = slices.AppendSeq(n.changed, maps.Keys(n.waiting))
	n.unblock()
}

// Wait puts a pod into its line: highest priority first, then oldest (PodSpec.Priority). nominated says that others have
// made way for it before (PodStatus.NominatedNodeName).
func (n *Node) Wait(p *Pod, nominated bool) {
	if _, ok := n.waiting[p.UID]; ok {
		return
	}
	n.take(p)
	w := &waiter{Pod: p}
	n.waiting[p.UID] = w
	n.changed = append(n.changed, p.UID)
	n.place(w)
	if nominated {
		n.nominate(w)
	}
}

// Bound takes room for a pod that is on this node: one that was found at start, or one that was admitted and of which
// more is known now. A pod that is ending has its room still, but those who wait for it know that it will come.
func (n *Node) Bound(p *Pod, started time.Time, ending bool) {
	b, ok := n.bound[p.UID]
	if !ok {
		n.take(p)
		b = &bound{Pod: p}
		n.occupy(b)
	}
	b.started = started
	n.end(b, ending)
}

func (n *Node) occupy(b *bound) {
	n.bound[b.UID] = b
	n.used.add(b.Pod, 1)
	if g := n.groupOf(b.Pod); g != nil {
		g.bound++
	}
}

// end notes whether a bound pod is ending.
func (n *Node) end(b *bound, ending bool) {
	if b.ending != ending {
		b.ending = ending
		n.used.end(b.Priority, ending)
	}
}

// Gone gives back the room of a pod that has ended, or takes it out of its line.
func (n *Node) Gone(uid types.UID) {
	if b, ok := n.bound[uid]; ok {
		n.end(b, false)
		n.used.add(b.Pod, -1)
		delete(n.bound, uid)
		if g := n.groupOf(b.Pod); g != nil {
			g.bound--
			n.forgetGroup(g)
		}
		n.drop(b.Pod)
		n.unblock()
	}
	if w, ok := n.waiting[uid]; ok {
		n.leave(w)
		n.drop(w.Pod)
	}
}

// Waiting is the number of pods that wait, Running that of pods which hold room.
func (n *Node) Waiting() int { return len(n.waiting) }
func (n *Node) Running() int { return len(n.bound) }

// Changed gives, once, the pods for whose wait there may be another reason than before. What it is, Why tells.
func (n *Node) Changed() []types.UID {
	changed := n.changed
	n.changed = nil
	return changed
}
