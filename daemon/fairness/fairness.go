// Package fairness reckons what everybody has used of the machine, and who comes first by that: who has used least for the weight that
// they have. What was used counts less the longer ago it was.
//
// In come who begins and who stops using which part of the machine, the weights, and the time. Out go the order, and what of it
// is to be stored. Nothing here knows pods or does I/O. Package node orders those that wait by it.
package fairness

import (
	"cmp"
	"math"
	"slices"
	"time"
)

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

// Use is what an account uses. What it has used counts less the longer ago it was: half as much after the half-life of its Book.
type Use struct {
	// Pods is how many pods wait or are on the machine; its Book has to be told when there are none any more (Spoil).
	Pods int

	name  string
	share float64 // weight, above 0
	// used is the decayed use at a time, in parts of the machine times seconds, and rate the part that its pods on it have.
	used float64
	at   int64 // Unix time in milliseconds; 0: of no time yet
	rate float64

	// later is what rate changes by at the next At: what has happened since then happened about now.
	later float64
	key   float64
}

// Key orders accounts, the least first. It changes by At, Charge and SetShare only.
func (u *Use) Key() float64 { return u.key }

// advance is how many seconds of the use of a running pod count at its start already: so those that start at the same time are of
// different accounts.
const advance = 60

// forgotten is the decayed use below which an account without pods is forgotten: a thousandth of the machine for a second.
const forgotten = 0.001

// Book is the use of all accounts. New makes one, which must not be used by several goroutines at a time.
type Book struct {
	halfLife time.Duration
	clock    int64 // Unix time in milliseconds, see At
	uses     map[string]*Use
	weights  map[string]float64
	dirty    map[*Use]struct{}
	late     []*Use
}

// New returns a book in which use counts for half as much after a time.
func New(halfLife time.Duration) *Book {
	return &Book{halfLife: halfLife, uses: map[string]*Use{}, weights: map[string]float64{}}
}

// Of returns the use of the account of a name, which is there until Take returns that it is gone.
func (b *Book) Of(name string) *Use {
	u := b.uses[name]
	if u == nil {
		u = &Use{name: name, share: 1, at: b.clock}
		if share, ok := b.weights[name]; ok {
			u.share = share
		}
		b.uses[name] = u
	}
	return u
}

// Set takes in what is stored of an account.
func (b *Book) Set(stored Account) {
	u := b.Of(stored.Name)
	u.used, u.at = stored.Used, stored.At
}

// SetShare sets the weight of an account; 0 is that of all others, 1.
func (b *Book) SetShare(name string, share float64) {
	if delete(b.weights, name); share > 0 {
		b.weights[name] = share
	} else {
		share = 1
	}
	if u := b.uses[name]; u != nil && u.share != share {
		u.share = share
		b.rank(u)
	}
}

// Charge takes in by how much more of the machine an account has than before: from the time of the last At on or, if later, from that of
// the next one, since what is told in between happens then. What is found running before the first has run since the time of Set.
func (b *Book) Charge(u *Use, more float64, later bool) {
	b.Spoil(u)
	if later {
		u.later += more
		b.late = append(b.late, u)
		return
	}
	b.accelerate(u, more)
	b.rank(u)
}

// Spoil makes Take return an account.
func (b *Book) Spoil(u *Use) {
	if b.dirty == nil {
		b.dirty = map[*Use]struct{}{}
	}
	b.dirty[u] = struct{}{}
}

// At tells the time, and reports whether the keys of all accounts may have changed.
func (b *Book) At(now time.Time) bool {
	passed := b.clock != now.UnixMilli()
	b.clock = now.UnixMilli()
	if !passed && len(b.late) == 0 {
		return false
	}
	for _, u := range b.late {
		b.accelerate(u, u.later)
		u.later = 0
	}
	b.late = nil
	for _, u := range b.uses {
		b.rank(u)
	}
	return true
}

// Show returns the use of an account now.
func (b *Book) Show(u *Use) Account {
	used, at := b.usedNow(u)
	return Account{Name: u.name, Used: used, At: at, Share: u.share, Running: u.rate}
}

// All returns the use of all accounts at a time, the one that comes first in front.
func (b *Book) All(at time.Time) (all []Account) {
	for _, u := range b.uses {
		used, _ := b.usedAt(u, at.UnixMilli())
		all = append(all, Account{Name: u.name, Used: used, At: at.UnixMilli(), Share: u.share, Running: u.rate})
	}
	slices.SortFunc(all, func(a, b Account) int {
		return cmp.Or(cmp.Compare(a.Used/a.Share, b.Used/b.Share), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// Take returns the accounts that have changed since the last call, and the names of those to be forgotten.
func (b *Book) Take() (changed []Account, gone []string) {
	for u := range b.dirty {
		b.settle(u)
		if u.Pods == 0 && u.used < forgotten {
			delete(b.uses, u.name)
			gone = append(gone, u.name)
			continue
		}
		changed = append(changed, Account{Name: u.name, Used: u.used, At: u.at})
	}
	b.dirty = nil
	slices.SortFunc(changed, func(a, b Account) int { return cmp.Compare(a.Name, b.Name) })
	slices.Sort(gone)
	return changed, gone
}

// Decayed lets accounts without pods be forgotten whose use has decayed (Take).
func (b *Book) Decayed() {
	for _, u := range b.uses {
		if used, _ := b.usedNow(u); u.Pods == 0 && used < forgotten {
			b.Spoil(u)
		}
	}
}

func (b *Book) decay() float64 { return math.Ln2 / max(1, b.halfLife.Seconds()) }

// usedNow returns the decayed use of an account now, and of when that is.
func (b *Book) usedNow(u *Use) (float64, int64) { return b.usedAt(u, b.clock) }

func (b *Book) usedAt(u *Use, at int64) (float64, int64) {
	passed := at - u.at
	if passed <= 0 || at == 0 {
		return u.used, u.at
	}
	if u.at == 0 { // it has begun before the time was known
		return u.used, at
	}
	keeps := math.Exp(-b.decay() * float64(passed) / 1000)
	return u.used*keeps + u.rate/b.decay()*(1-keeps), at
}

func (b *Book) settle(u *Use) { u.used, u.at = b.usedNow(u) }

// accelerate changes which part of the machine an account has from now on.
func (b *Book) accelerate(u *Use, by float64) {
	b.settle(u)
	if u.rate += by; u.rate < 1e-9 {
		u.rate = 0
	}
}

// rank orders an account by what it has used by now: what was used longer ago counts less, and what runs has used more.
func (b *Book) rank(u *Use) {
	used, _ := b.usedNow(u)
	u.key = (used + advance*u.rate) / u.share
}
