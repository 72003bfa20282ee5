package node

import (
	"time"

	"github.com/jobd/jobd/daemon/fairness"
	"github.com/jobd/jobd/daemon/prospect"
	"github.com/jobd/jobd/internal/heap"
)

// account is what the pods of one owner use of the node, by which those that wait are ordered if the node is fair (Pod.Account).
type account struct {
	*fairness.Use
	// lines are those of its lines that are ready, and index is its place among the accounts with such lines.
	lines heap.Heap[*line]
	index int
}

// ShareFairly orders pods of the same priority by what their accounts have used, which counts for half as much after that time, instead
// of by age alone. It must not be called later than at once.
func (n *Node) ShareFairly(halfLife time.Duration) { n.shares = fairness.New(halfLife) }

// account returns the account of a name.
func (n *Node) account(name string) *account {
	if n.shares == nil {
		return &n.all
	}
	a := n.accounts[name]
	if a == nil {
		a = &account{Use: n.shares.Of(name)}
		n.accounts[name] = a
	}
	return a
}

// SetAccount takes in what is stored of an account.
func (n *Node) SetAccount(stored fairness.Account) {
	if n.shares != nil {
		n.account(stored.Name)
		n.shares.Set(stored)
	}
}

// SetShare sets the weight of an account; 0 is that of all others, 1.
func (n *Node) SetShare(name string, share float64) {
	if n.shares == nil {
		return
	}
	n.shares.SetShare(name, share)
	if a := n.accounts[name]; a != nil {
		n.replace(a)
	}
}

// Accounts returns the use of all accounts at a time, the one that comes first in front.
func (n *Node) Accounts(at time.Time) []fairness.Account {
	if n.shares == nil {
		return nil
	}
	waiting := map[*account]int{}
	for _, w := range n.waiting {
		if !w.shape.Continues {
			waiting[w.account]++
		}
	}
	all := n.shares.All(at)
	for i := range all {
		all[i].Waiting = waiting[n.accounts[all[i].Name]]
	}
	return all
}

// TakeAccounts returns the accounts that have changed since the last call, and the names of those to be forgotten.
func (n *Node) TakeAccounts() (changed []fairness.Account, gone []string) {
	if n.shares == nil {
		return nil, nil
	}
	changed, gone = n.shares.Take()
	for _, name := range gone {
		delete(n.accounts, name)
	}
	return changed, gone
}

// Decayed lets accounts without pods be forgotten whose use has decayed (TakeAccounts).
func (n *Node) Decayed() {
	if n.shares != nil {
		n.shares.Decayed()
	}
}

// begin takes in that a pod of an account begins to use the node.
func (n *Node) begin(b *bound, later bool) {
	if n.shares != nil {
		n.account(b.Account()).Pods++
		n.charge(b, n.part(b), later && n.now != 0)
	}
}

// finish takes in that it does so no longer. What has ended by the first At has run until then.
func (n *Node) finish(b *bound) {
	if n.shares != nil {
		n.account(b.Account()).Pods--
		n.charge(b, 0, true)
	}
}

// recharge takes in that it has more or less than before.
func (n *Node) recharge(b *bound, later bool) {
	if n.shares != nil {
		n.charge(b, n.part(b), later && n.now != 0)
	}
}

// charge takes in which part of the node a pod has.
func (n *Node) charge(b *bound, part float64, later bool) {
	is := b.tenure()
	a, more := n.account(b.Account()), part-is.part
	is.part = part
	b.change(is)
	n.shares.Charge(a.Use, more, later)
	n.replace(a)
}

// setClock sets the time.
func (n *Node) setClock(now time.Time) {
	n.now = now.Unix()
	if n.shares == nil || !n.shares.At(now) {
		return
	}
	ready := n.ready
	n.ready = nil
	for _, a := range ready {
		n.ready.Push(a)
	}
}

// part returns which part of the node a pod has: the largest of those of each resource that it keeps, and of the number of pods.
func (n *Node) part(b *bound) float64 {
	part := 1 / float64(max(1, n.MaxPods))
	s := b.shape
	if b.frozen {
		s = b.withoutCPU()
	}
	for name, amount := range s.Ask {
		if has := n.offered[name]; has > 0 {
			part = max(part, min(1, float64(amount)/float64(has)))
		}
	}
	return part
}

// replace puts an account where it belongs after what it has used has changed.
func (n *Node) replace(a *account) {
	if len(a.lines) > 0 {
		n.ready.Fix(a.index)
	}
}

// Before orders accounts by the first of their lines.
func (a *account) Before(other *account) bool { return a.lines[0].Before(other.lines[0]) }

// Moved implements heap.Element.
func (a *account) Moved(to int) { a.index = to }

// readyLine makes a line one of those to be looked at.
func (n *Node) readyLine(l *line) {
	l.state, l.of = ready, l.queue[0].account
	a := l.of
	if a.lines.Push(l); len(a.lines) == 1 {
		n.ready.Push(a)
	} else {
		n.reorder(a)
	}
}

// refix puts a ready line where it belongs after its first pod has changed.
func (n *Node) refix(l *line) {
	l.of.lines.Fix(l.index)
	n.reorder(l.of)
}

// reorder puts an account where it belongs after its first line has changed.
func (n *Node) reorder(a *account) {
	if len(n.ready) > 1 {
		n.ready.Fix(a.index)
	}
}

// unready removes a line from those to be looked at.
func (n *Node) unready(l *line) {
	a := l.of
	if a.lines.Remove(l.index); len(a.lines) == 0 {
		n.ready.Remove(a.index)
	} else {
		n.reorder(a)
	}
}

// fairPlace returns what orders a pod among those of the same priority; nil if that is its age.
func (n *Node) fairPlace(w *waiter) *prospect.FairPlace {
	if n.shares == nil {
		return nil
	}
	first := w.account
	for _, other := range n.waiting {
		if other.account.Key() < first.Key() && other.Priority == w.Priority {
			first = other.account
		}
	}
	return &prospect.FairPlace{Own: n.shares.Show(w.account.Use), First: n.shares.Show(first.Use)}
}
