package node

import (
	"container/heap"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// waiter is a pod in a line.
type waiter struct {
	*Pod
	arrival uint64 // counts the pods, since times of creation are in whole seconds
	line    *line
	index   int
	// nominated says that resources are reserved for it, which preempted pods are to free.
	nominated bool
}

// line is a queue of pods that are alike, so that the rest need not be looked at when the first does not fit; or a
// gang.
type line struct {
	queue queue
	shape *shape // of all its pods; nil for the line of a single nominated pod, or of a gang
	gang  *group // nil: not a gang
	index int    // among those that are ready
	state lineState
}

type lineState int

const (
	idle    lineState = iota // empty
	ready                    // to be looked at
	blocked                  // to be looked at when more resources are free
)

// place adds a pod to the line of its gang, or of those that are alike. A nominated pod gets a line of its own, so that
// the pods before and behind it are looked at too.
func (n *Node) place(w *waiter) {
	if g := n.groupOf(w.Pod); g != nil {
		g.members[w.UID] = w
		if !g.known || g.gang {
			n.push(g.line, w)
			return
		}
	}
	if w.nominated {
		n.push(&line{}, w)
		return
	}
	l := n.lines[w.shape]
	if l == nil {
		l = &line{shape: w.shape}
		n.lines[w.shape] = l
	}
	n.push(l, w)
}

// Reorder changes how far ahead of others a pod waits (Pod.Ahead).
func (n *Node) Reorder(uid types.UID, ahead time.Time) {
	w, ok := n.waiting[uid]
	if !ok || w.Ahead == Ahead(ahead) {
		return
	}
	n.remove(w)
	moved := *w.Pod
	moved.Ahead = Ahead(ahead)
	w.Pod = &moved
	n.place(w)
}

// leave removes a pod that waits from its line.
func (n *Node) leave(w *waiter) {
	delete(n.waiting, w.UID)
	if len(n.waiting) == 0 {
		n.waiting = map[types.UID]*waiter{} // a map keeps the memory of the most that it has ever had
	}
	n.remove(w)
	if w.nominated {
		n.keep(w, false)
		n.unblock() // what was reserved for it is free for others
	}
	if g := n.groupOf(w.Pod); g != nil {
		delete(g.members, w.UID)
		n.forgetGroup(g)
	}
}

// nominate reserves resources for a pod that others are preempted for.
func (n *Node) nominate(w *waiter) {
	if w.nominated {
		return
	}
	n.keep(w, true)
	n.remove(w)
	n.place(w)
}

// keep reserves resources for a pod, or frees them again.
func (n *Node) keep(w *waiter, nominated bool) {
	w.nominated = nominated
	times := 1
	if !nominated {
		times = -1
	}
	n.reserved.add(w.Pod, times)
	if g := n.groupOf(w.Pod); g != nil {
		g.kept += times
	}
}

func (n *Node) push(l *line, w *waiter) {
	w.line = l
	heap.Push(&l.queue, w)
	if l.gang != nil {
		l.gang.shapes[w.shape]++
	}
	switch {
	case l.state == ready:
		heap.Fix(&n.ready, l.index)
	case l.state == idle, l.queue[0] == w, l.gang != nil:
		n.look(l)
	}
	// it is complete: its pods wait for another reason now
	if g := l.gang; g != nil && g.known && len(l.queue)+g.bound == g.need() {
		for _, member := range l.queue {
			n.changed = append(n.changed, member.UID)
		}
	}
}

func (n *Node) remove(w *waiter) {
	l := w.line
	heap.Remove(&l.queue, w.index)
	w.line = nil
	if g := l.gang; g != nil {
		if g.shapes[w.shape]--; g.shapes[w.shape] == 0 {
			delete(g.shapes, w.shape)
		}
	}
	switch {
	case l.state == ready && len(l.queue) > 0:
		heap.Fix(&n.ready, l.index)
	case l.state == ready:
		heap.Remove(&n.ready, l.index)
		n.rest(l)
	case len(l.queue) == 0:
		delete(n.blocked, l)
		n.rest(l)
	case l.gang != nil: // enough of the others, which are not alike, may fit
		n.look(l)
	}
}

// rest marks a line as idle, and forgets it if it is one of a shape.
func (n *Node) rest(l *line) {
	l.state = idle
	if l.shape != nil {
		delete(n.lines, l.shape)
	}
}

// look makes a line ready to be looked at.
func (n *Node) look(l *line) {
	delete(n.blocked, l)
	l.state = ready
	heap.Push(&n.ready, l)
}

// block sets the first of the ready lines aside until more resources are free.
func (n *Node) block() {
	l := heap.Pop(&n.ready).(*line)
	l.state = blocked
	n.blocked[l] = struct{}{}
}

// unblock makes all blocked lines ready, since more resources may be free.
func (n *Node) unblock() {
	n.freed = true
	for l := range n.blocked {
		n.look(l)
	}
}

func before(a, b *waiter) bool {
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	if a.Ahead != b.Ahead {
		return a.Ahead > b.Ahead
	}
	if a.Created != b.Created {
		return a.Created < b.Created
	}
	if a.arrival != b.arrival {
		return a.arrival < b.arrival
	}
	return a.UID < b.UID
}

type queue []*waiter

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return before(q[i], q[j]) }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}
func (q *queue) Push(x any) {
	w := x.(*waiter)
	w.index = len(*q)
	*q = append(*q, w)
}
func (q *queue) Pop() any {
	last := len(*q) - 1
	w := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return w
}

// lineHeap orders lines by their first pods.
type lineHeap []*line

func (h lineHeap) Len() int           { return len(h) }
func (h lineHeap) Less(i, j int) bool { return before(h[i].queue[0], h[j].queue[0]) }
func (h lineHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *lineHeap) Push(x any) {
	l := x.(*line)
	l.index = len(*h)
	*h = append(*h, l)
}
func (h *lineHeap) Pop() any {
	last := len(*h) - 1
	l := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return l
}
