package node

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/jobd/jobd/internal/heap"
)

// account is what the pods of one owner use of the node, by which those that wait are ordered if Fair is set (Pod.Account). What it has
// used counts less the longer ago it was: half as much after HalfLife.
type account struct {
	name  string
	share float64 // weight, above 0
	// used is the decayed use at a time, in parts of the node times seconds, and rate the part that its pods on the node have.
	used float64
	at   int64 // Unix time in milliseconds; 0: of no time yet
	rate float64

	// later is what rate changes by at the next At: what has happened since then happened about now.
	later float64

	pods int     // that wait or are on the node
	key  float64 // by which it is ordered, see rank
	// lines are those of its lines that are ready, and index is its place among the accounts with such lines.
	lines heap.Heap[*line]
	index int
}

// advance is how many seconds of the use of a running pod count at its start already: so those that start at the same time are of
// different accounts.
const advance = 60

// Fair is how pods of the same priority are ordered by what their accounts have used; see Node.Fair.
type Fair struct {
	// HalfLife is how long it takes until use counts for half as much.
	HalfLife time.Duration
}

// Account is the use of an account, for those who store it or show it.
type Account struct {
	Name string `json:"-"`
	// Used is its decayed use at a time, in Unix milliseconds: parts of the machine times seconds.
	Used float64 `json:"used"`
	At   int64   `json:"at"`
	// Share is its weight, Running the part of the machine that its pods have now, and Waiting how many pods wait.
	Share   float64 `json:"-"`
	Running float64 `json:"-"`
	Waiting int     `json:"-"`
}

func (n *Node) decay() float64 { return math.Ln2 / max(1, n.Fair.HalfLife.Seconds()) }

// account returns the account of a name.
func (n *Node) account(name string) *account {
	if n.Fair == nil {
		return &n.all
	}
	a := n.accounts[name]
	if a == nil {
		if n.accounts == nil {
			n.accounts = map[string]*account{}
		}
		a = &account{name: name, share: 1, at: n.clock}
		if share, ok := n.shares[name]; ok {
			a.share = share
		}
		n.accounts[name] = a
	}
	return a
}

// SetAccount takes in what is stored of an account.
func (n *Node) SetAccount(stored Account) {
	if n.Fair == nil {
		return
	}
	a := n.account(stored.Name)
	a.used, a.at = stored.Used, stored.At
}

// SetShare sets the weight of an account; 0 is that of all others, 1.
func (n *Node) SetShare(name string, share float64) {
	if n.Fair == nil {
		return
	}
	if n.shares == nil {
		n.shares = map[string]float64{}
	}
	if delete(n.shares, name); share > 0 {
		n.shares[name] = share
	} else {
		share = 1
	}
	if a := n.accounts[name]; a != nil && a.share != share {
		a.share = share
		n.rank(a)
	}
}

// Accounts returns the use of all accounts at a time, the one that comes first in front.
func (n *Node) Accounts(at time.Time) (all []Account) {
	waiting := map[*account]int{}
	for _, w := range n.waiting {
		if !w.shape.continues {
			waiting[w.account]++
		}
	}
	for _, a := range n.accounts {
		used, _ := n.usedAt(a, at.UnixMilli())
		all = append(all, Account{Name: a.name, Used: used, At: at.UnixMilli(), Share: a.share, Running: a.rate, Waiting: waiting[a]})
	}
	slices.SortFunc(all, func(a, b Account) int {
		return cmp.Or(cmp.Compare(a.Used/a.Share, b.Used/b.Share), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// forgotten is the decayed use below which an account without pods is forgotten: a thousandth of the machine for a second.
const forgotten = 0.001

// TakeAccounts returns the accounts that have changed since the last call, and the names of those to be forgotten.
func (n *Node) TakeAccounts() (changed []Account, gone []string) {
	if n.dirty == nil {
		return nil, nil
	}
	for a := range n.dirty {
		n.settle(a)
		if a.pods == 0 && a.used < forgotten {
			delete(n.accounts, a.name)
			gone = append(gone, a.name)
			continue
		}
		changed = append(changed, Account{Name: a.name, Used: a.used, At: a.at})
	}
	n.dirty = nil
	slices.SortFunc(changed, func(a, b Account) int { return cmp.Compare(a.Name, b.Name) })
	slices.Sort(gone)
	return changed, gone
}

// Decayed lets accounts without pods be forgotten whose use has decayed (TakeAccounts).
func (n *Node) Decayed() {
	for _, a := range n.accounts {
		if used, _ := n.usedNow(a); a.pods == 0 && used < forgotten {
			n.spoil(a)
		}
	}
}

func (n *Node) spoil(a *account) {
	if n.dirty == nil {
		n.dirty = map[*account]struct{}{}
	}
	n.dirty[a] = struct{}{}
}

// usedNow returns the decayed use of an account now, and of when that is.
func (n *Node) usedNow(a *account) (float64, int64) { return n.usedAt(a, n.clock) }

func (n *Node) usedAt(a *account, at int64) (float64, int64) {
	passed := at - a.at
	if passed <= 0 || at == 0 {
		return a.used, a.at
	}
	if a.at == 0 { // it has begun before the time was known
		return a.used, at
	}
	keeps := math.Exp(-n.decay() * float64(passed) / 1000)
	return a.used*keeps + a.rate/n.decay()*(1-keeps), at
}

func (n *Node) settle(a *account) { a.used, a.at = n.usedNow(a) }

// begin takes in that a pod of an account begins to use the node.
func (n *Node) begin(b *bound, later bool) {
	if n.Fair != nil {
		n.account(b.Account()).pods++
		n.charge(b, n.part(b), later && n.clock != 0)
	}
}

// finish takes in that it does so no longer. What has ended by the first At has run until then.
func (n *Node) finish(b *bound) {
	if n.Fair != nil {
		n.account(b.Account()).pods--
		n.charge(b, 0, true)
	}
}

// recharge takes in that it has more or less than before.
func (n *Node) recharge(b *bound, later bool) {
	if n.Fair != nil {
		n.charge(b, n.part(b), later && n.clock != 0)
	}
}

// charge takes in which part of the node a pod has: from the time of the last At on, or from that of the next one, since what is told in
// between happens then. What is found running before the first has run since the time of SetAccount.
func (n *Node) charge(b *bound, part float64, later bool) {
	is := b.tenure()
	a, more := n.account(b.Account()), part-is.part
	is.part = part
	b.change(is)
	n.spoil(a)
	if later {
		a.later += more
		n.late = append(n.late, a)
		return
	}
	n.accelerate(a, more)
	n.rank(a)
}

// accelerate changes which part of the node an account has from now on.
func (n *Node) accelerate(a *account, by float64) {
	n.settle(a)
	if a.rate += by; a.rate < 1e-9 {
		a.rate = 0
	}
}

// setClock sets the time.
func (n *Node) setClock(now time.Time) {
	passed := n.clock != now.UnixMilli()
	n.now, n.clock = now.Unix(), now.UnixMilli()
	if n.Fair == nil || !passed && len(n.late) == 0 {
		return
	}
	for _, a := range n.late {
		n.accelerate(a, a.later)
		a.later = 0
	}
	n.late = nil
	n.rankAll()
}

// part returns which part of the node a pod has: the largest of those of each resource that it keeps, and of the number of pods.
func (n *Node) part(b *bound) float64 {
	part := 1 / float64(max(1, n.MaxPods))
	s := b.shape
	if b.frozen {
		s = b.withoutCPU()
	}
	for name, amount := range s.ask {
		if has := n.offered[name]; has > 0 {
			part = max(part, min(1, float64(amount)/float64(has)))
		}
	}
	return part
}

// rank orders an account by what it has used by now.
func (n *Node) rank(a *account) {
	used, _ := n.usedNow(a)
	a.key = (used + advance*a.rate) / a.share
	if len(a.lines) > 0 {
		n.ready.Fix(a.index)
	}
}

// rankAll orders the accounts by the time: what was used longer ago counts less, and what runs has used more.
func (n *Node) rankAll() {
	for _, a := range n.accounts {
		used, _ := n.usedNow(a)
		a.key = (used + advance*a.rate) / a.share
	}
	ready := n.ready
	n.ready = nil
	for _, a := range ready {
		n.ready.Push(a)
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
func (n *Node) fairPlace(w *waiter) *FairPlace {
	if n.Fair == nil {
		return nil
	}
	show := func(a *account) Account {
		used, at := n.usedNow(a)
		return Account{Name: a.name, Used: used, At: at, Share: a.share, Running: a.rate}
	}
	first := w.account
	for _, other := range n.waiting {
		if other.account.key < first.key && other.Priority == w.Priority {
			first = other.account
		}
	}
	return &FairPlace{Own: show(w.account), First: show(first)}
}
