package node

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/requests"
	"github.com/jobd/jobd/internal/heap"
)

// waiter is a pod in a line. It has a cache line of 64 bytes for itself, in which is all that tells who comes first: to take the first of very
// many out of a heap is to read some dozens of them.
type waiter struct {
	*Pod
	arrival uint64 // counts the pods, since times of creation are in whole seconds
	account *account
	line    *line
	order
	index int32
	// nominated says that resources are reserved for it, which preempted pods are to free.
	nominated bool
	// seen is the last of the rules that it was compared with; those that are nominated were compared with all.
	seen int
}

// order is a copy of what a pod says of its place in a queue.
type order struct {
	ahead    int64
	priority int32
	created  uint32
}

func orderOf(p *Pod) order { return order{p.Ahead, p.Priority, p.Created} }

// line is a queue of pods that are alike, so that the rest need not be looked at when the first does not fit; or a
// gang.
type line struct {
	queue   heap.Heap[*waiter]
	lineKey          // of all its pods; of no shape for the line of a single nominated pod, or of a gang
	gang    *group   // nil: not a gang
	of      *account // among whose lines it is while it is ready
	index   int      // among those
	state   lineState
	// judged says that the first of those that are blocked waits for nothing that could be kept for it.
	judged bool
}

// lineKey is what pods of a line have in common.
type lineKey struct {
	shape *shape
	limit requests.Limit
	owner *account
}

type lineState int

const (
	idle    lineState = iota // empty
	ready                    // to be looked at
	blocked                  // to be looked at when more resources are free
)

// enqueue adds a pod to the line of its gang, or of those that are alike. A nominated pod gets a line of its own, so that
// the pods before and behind it are looked at too.
func (n *Node) enqueue(w *waiter) {
	if g := n.groupOf(w.Pod); g != nil {
		for _, other := range g.members { // all of them are of one account
			n.enter(w, other.account)
			break
		}
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
	key := lineKey{w.shape, w.limit, w.account}
	l := n.lines[key]
	if l == nil {
		l = &line{lineKey: key}
		n.lines[key] = l
	}
	n.push(l, w)
}

// Reorder changes how far ahead of others a pod waits (Pod.Ahead), and the deadline of its Job (Pod.Within).
func (n *Node) Reorder(uid types.UID, ahead time.Time, deadline *int64) {
	move := func(p *Pod) (*Pod, bool) {
		moved := *p
		moved.Ahead = Ahead(ahead)
		moved.Within(deadline)
		return &moved, moved.Ahead != p.Ahead || moved.limit != p.limit
	}
	if w, ok := n.waiting[uid]; ok {
		if moved, differs := move(w.Pod); differs {
			n.remove(w)
			w.Pod, w.order = moved, orderOf(moved)
			n.enqueue(w)
		}
	}
	if b, ok := n.bound[uid]; ok {
		if moved, differs := move(b.Pod); differs {
			is := b.tenure()
			is.ends = 0
			b.change(is)
			b.Pod = moved
			n.expect(b)
			n.kept.known = false
		}
	}
}

// leave removes a pod that waits from its line.
func (n *Node) leave(w *waiter) {
	delete(n.waiting, w.UID)
	if w.shape.Continues {
		n.continuing--
	}
	if w.account.Pods--; w.account.Pods == 0 && n.shares != nil {
		n.shares.Spoil(w.account.Use)
	}
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
	n.enqueue(w)
}

// keep reserves resources for a pod, or frees them again.
func (n *Node) keep(w *waiter, nominated bool) {
	w.nominated = nominated
	n.nominees[w.UID] = w
	times := 1
	if !nominated {
		delete(n.nominees, w.UID)
		times = -1
	}
	n.reserved.Add(w.Priority, w.shape.One, times)
	if g := n.groupOf(w.Pod); g != nil {
		g.kept += times
	}
}

func (n *Node) push(l *line, w *waiter) {
	w.line = l
	l.queue.Push(w)
	if l.gang != nil {
		l.gang.shapes[w.shape]++
	}
	switch {
	case l.state == ready:
		n.refix(l)
	case l.state == idle, l.queue[0] == w, l.gang != nil:
		n.look(l)
	}
}

// arrived notes that a gang has become complete by a pod: all its pods wait for another reason now.
func (n *Node) arrived(w *waiter) {
	if g := w.line.gang; g != nil && g.known && len(w.line.queue)+g.bound == g.need() {
		for _, member := range w.line.queue {
			n.changed = append(n.changed, member.UID)
		}
	}
}

func (n *Node) remove(w *waiter) {
	l := w.line
	l.queue.Remove(int(w.index))
	w.line = nil
	if n.kept.first == w {
		defer n.release()
	}
	if g := l.gang; g != nil {
		if g.shapes[w.shape]--; g.shapes[w.shape] == 0 {
			delete(g.shapes, w.shape)
		}
	}
	switch {
	case l.state == ready && len(l.queue) > 0:
		n.refix(l)
	case l.state == ready:
		n.unready(l)
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
		delete(n.lines, l.lineKey)
	}
}

// look makes a line ready to be looked at.
func (n *Node) look(l *line) {
	delete(n.blocked, l)
	n.readyLine(l)
}

// block sets the first of the ready lines aside until more resources are free.
func (n *Node) block() {
	l := n.ready[0].lines[0]
	n.unready(l)
	l.state = blocked
	n.blocked[l] = struct{}{}
}

// unblock makes all blocked lines ready, since more resources may be free.
func (n *Node) unblock() {
	n.freed, n.wake, n.kept.known = true, 0, false
	n.openings++
	for l := range n.blocked {
		n.look(l)
	}
}

// Before reports whether a pod comes before another.
func (w *waiter) Before(other *waiter) bool {
	if w.priority != other.priority {
		return w.priority > other.priority
	}
	if w.ahead != other.ahead {
		return w.ahead > other.ahead
	}
	if w.account != other.account && w.account.Key() != other.account.Key() {
		return w.account.Key() < other.account.Key()
	}
	if w.created != other.created {
		return w.created < other.created
	}
	if w.arrival != other.arrival {
		return w.arrival < other.arrival
	}
	return w.UID < other.UID
}

// Moved implements heap.Element.
func (w *waiter) Moved(to int) { w.index = int32(to) }

// Before orders lines by their first pods.
func (l *line) Before(other *line) bool { return l.queue[0].Before(other.queue[0]) }

// Moved implements heap.Element.
func (l *line) Moved(to int) { l.index = to }

// enter makes a waiting pod one of another account.
func (n *Node) enter(w *waiter, a *account) {
	w.account.Pods--
	w.account = a
	a.Pods++
}
