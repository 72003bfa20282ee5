package node

import (
	"container/heap"
)

// waiter is a pod in a line.
type waiter struct {
	*Pod
	line  *line
	index int
	// nominated tells that room is kept for it, which others are to leave.
	nominated bool
}

// line is a queue of pods that are alike, of which the first is as good as any to see whether there is room; or a gang.
type line struct {
	queue queue
	shape *shape // that of all; nil for a line of its own, or a gang
	gang  *group // nil: not one
	index int    // among those that are ready
	state lineState
}

type lineState int

const (
	idle    lineState = iota // empty
	ready                    // to be looked at
	blocked                  // to be looked at when there is more room
)

// place puts a pod where it waits: with its gang, with those that are alike, or, if room is kept for it, by itself, so that
// those who come before and behind it are looked at too.
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

// leave takes a pod out of the line in which it waits.
func (n *Node) leave(w *waiter) {
	delete(n.waiting, w.UID)
	n.remove(w)
	if w.nominated {
		n.keep(w, false)
		n.unblock() // others may have what was kept for it
	}
	if g := n.groupOf(w.Pod); g != nil {
		delete(g.members, w.UID)
		n.forgetGroup(g)
	}
}

// nominate keeps room for a pod that others make way for.
func (n *Node) nominate(w *waiter) {
	if w.nominated {
		return
	}
	n.keep(w, true)
	n.remove(w)
	n.place(w)
}

// keep keeps room for a pod, or does so no longer.
func (n *Node) keep(w *waiter, room bool) {
	w.nominated = room
	times := 1
	if !room {
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
	if g := l.gang; g != nil && g.known && len(l.queue)+g.bound == g.need() { // it is complete: what they wait for is another thing now
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
	case l.gang != nil: // there may be room for enough of the others, which are not alike
		n.look(l)
	}
}

// rest forgets an empty line, until somebody comes.
func (n *Node) rest(l *line) {
	l.state = idle
	if l.shape != nil {
		delete(n.lines, l.shape)
	}
}

// look has a line looked at.
func (n *Node) look(l *line) {
	delete(n.blocked, l)
	l.state = ready
	heap.Push(&n.ready, l)
}

// block puts the first of the ready lines aside until there is more room.
func (n *Node) block() {
	l := heap.Pop(&n.ready).(*line)
	l.state = blocked
	n.blocked[l] = struct{}{}
}

// unblock has all lines looked at, since there may be more room.
func (n *Node) unblock() {
	for l := range n.blocked {
		n.look(l)
	}
}

func before(a, b *waiter) bool {
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	if !a.Created.Equal(b.Created) {
		return a.Created.Before(b.Created)
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

// lineHeap has the line first whose first pod comes first.
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
