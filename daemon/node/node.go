package node

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/cards"
	"github.com/jobd/jobd/daemon/fairness"
	"github.com/jobd/jobd/daemon/fit"
	"github.com/jobd/jobd/daemon/load"
	"github.com/jobd/jobd/daemon/relation"
	"github.com/jobd/jobd/daemon/requests"
	"github.com/jobd/jobd/internal/heap"
)

// Node is the capacity of this machine, the pods that use it, and those that wait for it. New makes one.
//
// Pods that are alike wait in one queue (line), and a queue that is blocked is not looked at again before something has
// changed in its favour: a step takes the same time for ten waiting pods as for ten thousand. A blocked queue does not
// hold up others whose pods fit, as in a cluster.
type Node struct {
	// MaxPods is how many pods may be bound to the node and not yet ended.
	MaxPods int
	// Allocatable is what bound pods may request together, nil for anything. Offer and SetDevices change it.
	Allocatable requests.Resources
	// StarvationAfter is how long the first waits until nothing is given to those behind it that it needs; 0 for ever. See At.
	StarvationAfter time.Duration

	// offered is Allocatable as it is when only pods use the devices, and wanting is how many shapes request devices.
	offered requests.Resources
	cards   cards.Board
	wanting int

	facts    fit.Facts
	arrivals uint64 // how many pods have ever waited
	shapes   map[string]*shape
	bound    map[types.UID]*bound
	used     load.Levels
	// reserved is what is kept for nominated pods, for which others are preempted.
	reserved load.Levels
	nominees map[types.UID]*waiter
	// holds is what is kept for pods that are to come (Hold), and openings counts when there may have come to be more room.
	holds    map[string][]Expected
	openings uint64

	waiting map[types.UID]*waiter
	// continuing is how many of those that wait are on the node, see Displaced.
	continuing int
	lines      map[lineKey]*line
	groups     map[string]*group
	// ready are the accounts that have lines to be looked at: all has those of everybody if shares is nil.
	ready    heap.Heap[*account]
	all      account
	accounts map[string]*account
	shares   *fairness.Book // nil: pods are ordered by age alone, see ShareFairly
	blocked  map[*line]struct{}
	changed  []types.UID

	now int64 // Unix time, see At
	// patience is StarvationAfter in seconds, rounded up.
	patience int64
	wake     int64 // when the time alone may change something; 0: never
	kept     reservation

	// expected are critical pods that are bound to the node, and for which others end (MakeRoom). Their room is reserved.
	expected map[types.UID]*Pod

	// wishes are what pods on the node wait for, and freed says that there may be more room for them.
	wishes map[types.UID]wish
	freed  bool

	// rules are what the known pods ask of others, by what they select.
	rules        *relation.Rules
	lastCompared compared
	// crowded are the pods for whose rules there was no room, and fewer says that there are fewer rules now.
	crowded int
	fewer   bool
	// steps are what has been compared since TakeSteps.
	steps int

	alone [1]*waiter // see admitFirst
}

// bound is a pod that is bound to the node.
type bound struct {
	*Pod
	started uint32 // Unix time in seconds; 0: not yet
	ending  bool
	frozen  bool    // see Freeze
	stands  bool    // see Pause
	held    bool    // it stays frozen whatever becomes of its CPU
	more    *tenure // nil: nothing; read by tenure, written by change
}

// tenure is what a bound pod has only where there are deadlines, pauses or shares.
type tenure struct {
	pausedFor uint32 // seconds, see Pause
	later     uint32 // seconds, see Pause
	// displaced is since when its CPU is for others, in Unix time; 0: it is not.
	displaced uint32
	part      float64 // of the node, for which its account is charged (ShareFairly)
	ends      int64   // Unix time at which its deadline has ended it; 0: there is none
}

func (b *bound) tenure() tenure {
	if b.more == nil {
		return tenure{}
	}
	return *b.more
}

// ends returns when the deadline of a pod has ended it, in Unix time; 0: there is none.
func (b *bound) ends() int64 { return b.tenure().ends }

// change changes the tenure of a pod, and takes no memory for one that is empty.
func (b *bound) change(to tenure) {
	switch {
	case to == tenure{}:
		b.more = nil
	case b.more == nil:
		b.more = &to
	default:
		*b.more = to
	}
}

// startedAt returns when the pod has started, the zero time if it has not.
func (b *bound) startedAt() time.Time {
	if b.started == 0 {
		return time.Time{}
	}
	return time.Unix(int64(b.started), 0)
}

// wish is what a pod on the node is to get in addition to what it has (KEP-1287), for which there is no room now.
type wish struct {
	namespace string
	priority  int32
	extra     requests.Resources
}

// Step is one decision, to be carried out in one transaction.
type Step struct {
	// Bind are the pods to be bound to the node: one, or those of a gang together.
	Bind []types.UID
	// Continue are displaced pods that go on: one, or those of a group that were paused together.
	Continue []types.UID
	// Victims are pods to be preempted by others, of which For is the first, and Pause those that are to be paused for them instead
	// (Displaced). Nominate are pods for which resources are reserved from now on.
	Nominate, Victims, Pause []types.UID
	For                      types.UID
}

// New returns a node that takes that many pods, and as much as is allocatable.
func New(maxPods int, allocatable requests.Resources) *Node {
	return &Node{
		MaxPods: maxPods, Allocatable: allocatable, offered: allocatable,
		shapes: map[string]*shape{}, bound: map[types.UID]*bound{}, used: load.NewLevels(), reserved: load.NewLevels(),
		nominees: map[types.UID]*waiter{}, waiting: map[types.UID]*waiter{}, lines: map[lineKey]*line{}, groups: map[string]*group{},
		blocked: map[*line]struct{}{}, all: account{Use: new(fairness.Use)}, accounts: map[string]*account{},
		rules: relation.NewRules(),
	}
}

// Describe folds in the Node object: whether it is cordoned, its taints and labels.
func (n *Node) Describe(node *corev1.Node) {
	now := fit.FactsOf(node)
	if n.facts.Equal(&now) {
		return
	}
	n.facts = now
	for _, s := range n.shapes {
		s.judged = false
	}
	n.changed = slices.AppendSeq(n.changed, maps.Keys(n.waiting))
	n.unblock()
}

// Label returns the value of a label of the node, and whether it has that.
func (n *Node) Label(key string) (string, bool) {
	value, ok := n.facts.Labels[key]
	return value, ok
}

// Offer changes what bound pods may request together. Pods that are bound stay, even if they have more than that.
func (n *Node) Offer(allocatable requests.Resources) {
	if maps.Equal(n.offered, allocatable) && (n.offered == nil) == (allocatable == nil) {
		return
	}
	n.offered = allocatable
	n.Allocatable = n.cards.Offer(n.offered)
	n.changed = slices.AppendSeq(n.changed, maps.Keys(n.waiting))
	n.unblock()
}

// Wait adds a pending pod: highest priority first (PodSpec.Priority), then those that are put ahead, then oldest. nominated
// says that others have been preempted for it before (PodStatus.NominatedNodeName).
func (n *Node) Wait(p *Pod, nominated bool) {
	if _, ok := n.waiting[p.UID]; ok {
		return
	}
	n.take(p)
	w := n.put(p)
	if nominated {
		n.nominate(w)
	}
}

// put puts a pod into the queue.
func (n *Node) put(p *Pod) *waiter {
	n.arrivals++
	w := &waiter{Pod: p, order: orderOf(p), arrival: n.arrivals, seen: n.rules.Last(), account: n.account(p.Account())}
	if p.shape.Continues {
		n.continuing++
	}
	w.account.Pods++
	n.waiting[p.UID] = w
	n.changed = append(n.changed, p.UID)
	n.enqueue(w)
	n.arrived(w)
	return w
}

// Bound folds in a pod that is bound to this node: one that was found at start, or one that was admitted and has
// changed. A pod that is ending still uses its resources, but nothing more is preempted by those that wait for them.
func (n *Node) Bound(p *Pod, started time.Time, ending bool) {
	b, ok := n.bound[p.UID]
	if !ok {
		n.forgetExpected(p.UID)
		n.take(p)
		b = &bound{Pod: p}
		n.occupy(b, true)
	}
	b.started = seconds(started)
	n.end(b, ending)
	n.queueForCPU(b)
	n.expect(b)
}

// expect notes when a pod on the node has ended at the latest.
func (n *Node) expect(b *bound) {
	is, ends := b.tenure(), int64(0)
	switch {
	case b.limit == 0, b.stands: // nobody knows when it goes on, and has its deadline
	case b.started != 0:
		ends = int64(b.started) + b.limit.Seconds() + int64(is.later)
	case is.ends == 0 && n.now != 0:
		ends = n.now + b.limit.Seconds()
	default:
		return
	}
	if is.ends != ends {
		is.ends, n.kept.known = ends, false
		b.change(is)
	}
}

func (n *Node) occupy(b *bound, later bool) {
	n.bound[b.UID] = b
	if n.wanting > 0 && n.cards.Bound(b.UID, b.shape.Ask) {
		n.Allocatable = n.cards.Offer(n.offered)
	}
	n.used.Add(b.Priority, b.shape.One, 1)
	n.begin(b, later)
	n.expect(b)
	n.kept.known = false
	if len(b.shape.Matches) > 0 {
		n.unblock() // others may have waited for its company
	}
	if g := n.groupOf(b.Pod); g != nil {
		g.bound++
		g.Began = g.Began || g.Once && g.bound >= g.need()
	}
}

// end records whether a bound pod is ending.
func (n *Node) end(b *bound, ending bool) {
	if b.ending != ending {
		b.ending = ending
		n.used.End(b.Priority, b.shape.One, ending)
		if ending && len(b.shape.Matches) > 0 {
			n.unblock() // it is no longer counted where pods are spread
		}
	}
}

// Gone frees what a pod used that has ended, or removes it from the line in which it waits.
func (n *Node) Gone(uid types.UID) {
	n.forgetExpected(uid)
	if b, ok := n.bound[uid]; ok {
		n.finish(b)
		n.end(b, false)
		n.displace(b, 0)
		n.queueForCPU(b)
		n.freeze(b, false)
		n.used.Add(b.Priority, b.shape.One, -1)
		delete(n.bound, uid)
		if n.cards.Gone(uid) {
			n.Allocatable = n.cards.Offer(n.offered)
		}
		if g := n.groupOf(b.Pod); g != nil {
			g.bound--
			n.forgetGroup(g)
		}
		n.drop(b.Pod)
		delete(n.wishes, uid)
		n.unblock()
	}
	if w, ok := n.waiting[uid]; ok {
		n.leave(w)
		n.drop(w.Pod)
	}
}

// Waiting returns the number of pods that wait to be bound.
func (n *Node) Waiting() int { return len(n.waiting) - n.continuing }

// TakeSteps returns how many comparisons there were since the last call, roughly: what takes time.
func (n *Node) TakeSteps() int {
	steps := n.steps
	n.steps = 0
	return steps
}

// Running returns the number of pods that are bound and have not ended.
func (n *Node) Running() int { return len(n.bound) }

// Has reports whether a pod is on the node.
func (n *Node) Has(uid types.UID) bool { return n.bound[uid] != nil }

// Changed returns the waiting pods for which Why may return something else than at the last call.
func (n *Node) Changed() []types.UID {
	changed := n.changed
	n.changed = nil
	return changed
}
