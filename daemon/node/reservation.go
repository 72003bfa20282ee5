package node

import (
	"cmp"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/load"
	"github.com/jobd/jobd/daemon/prospect"
)

// reservation is the room that is kept for the first of those that have waited longer than StarvationAfter. Those behind it start
// only in what it leaves, or if they have to end before it could start anyway. So nothing that starts from then on delays it: it
// starts at the latest when those that now run have ended.
type reservation struct {
	first *waiter
	line  *line
	needs load.Sum
	since uint32 // Unix time
	// by is the time by which it has room at the latest, as deadlines have it, and never if they do not say. Then is what is taken at that
	// time, with what it needs itself. Both are valid if known.
	by    int64
	then  load.Sum
	known bool
}

// never is later than any time.
const never = math.MaxInt64

// lasting is how long a pod without a deadline may run before it is not expected to end any more: no room is kept for what would
// need its end, since that would leave the machine empty for nothing.
const lasting = 24 * 60 * 60

// At tells the time, which Next goes by: who has waited long enough for room to be kept for it.
func (n *Node) At(now time.Time) {
	n.setClock(now)
	n.patience = int64((n.StarvationAfter + time.Second - 1) / time.Second)
	if n.wake == 0 || n.now < n.wake {
		return
	}
	n.wake = 0
	if n.kept.first != nil {
		if l := n.kept.first.line; l.state == blocked { // somebody on the node may not be expected to end any more
			n.look(l)
		}
		return
	}
	for l := range n.blocked {
		if !n.starves(l) {
			n.wakeFor(l)
		} else if !l.judged {
			n.look(l)
		}
	}
}

// Wake returns when Next may have something to decide because of the time alone (At); zero for never.
func (n *Node) Wake() time.Time {
	if n.wake == 0 {
		return time.Time{}
	}
	return time.Unix(n.wake, 0)
}

func (n *Node) wakeAt(at int64) {
	if n.wake == 0 || at < n.wake {
		n.wake = at
	}
}

// since returns since when a pod waits, in Unix time: since its creation or, for its CPU only, since that is for others.
func (n *Node) since(w *waiter) int64 {
	if w.shape.Continues {
		return int64(n.bound[w.UID].displaced())
	}
	return int64(w.created)
}

// wakeFor notes when the first of a line has waited long enough.
func (n *Node) wakeFor(l *line) {
	if n.patience > 0 && n.kept.first == nil {
		n.wakeAt(n.since(l.queue[0]) + n.patience)
	}
}

// starves reports whether the first of a line has waited for so long that room is to be kept for it.
func (n *Node) starves(l *line) bool {
	return n.patience > 0 && n.now >= n.since(l.queue[0])+n.patience
}

// reserve keeps room for the first of a line that does not fit, if it is its turn, and frees the room that it need not have any more.
func (n *Node) reserve(l *line) {
	l.judged = false
	first, own := l.queue[0], n.kept.first != nil && n.kept.line == l
	switch {
	case !n.starves(l):
		n.wakeFor(l)
		return
	case own, n.kept.first == nil, first.Before(n.kept.first):
	default:
		return
	}
	l.judged = true
	needs, ok := n.demand(l)
	switch {
	case !ok && own:
		n.release()
	case !ok:
	case n.kept.first == nil:
		n.kept = reservation{first: first, line: l, needs: needs, since: uint32(n.now)}
		n.expectEnds()
	case own:
		n.kept.needs, n.kept.known = needs, false
		n.expectEnds()
	default: // it comes before the one that the room was kept for
		n.release()
		n.kept = reservation{first: first, line: l, needs: needs, since: uint32(n.now)}
		n.expectEnds()
	}
}

// release frees the room that is kept.
func (n *Node) release() {
	n.kept = reservation{}
	n.unblock()
}

// expectEnds notes when the first of those on the node is not expected to end any more, which may be what the room is kept for.
func (n *Node) expectEnds() {
	for _, b := range n.bound {
		if !b.ending && b.limit == 0 && !b.Endless && b.started != 0 && !n.lasts(b) {
			n.wakeAt(int64(b.started) + lasting)
		}
	}
}

// lasts reports whether nobody expects a pod on the node to end. One that is displaced goes on before long.
func (n *Node) lasts(b *bound) bool {
	return !b.ending && (b.frozen && (b.displaced() == 0 || b.held) || b.Endless || b.limit == 0 && b.started != 0 && n.now >= int64(b.started)+lasting)
}

// demand returns what the first of a line takes, with as many of its gang as have to start together; false if room is not what it
// waits for, or it would not fit beside what is not expected to end either.
func (n *Node) demand(l *line) (needs load.Sum, ok bool) {
	pods := []*waiter{l.queue[0]}
	times := 1
	if g := l.gang; g != nil {
		need := max(1, g.need()-g.bound)
		if !g.gang || len(l.queue) < need {
			return needs, false
		}
		if times = need; !n.alike(l) {
			if pods, times = n.able(l), 1; len(pods) < need {
				return needs, false
			}
			pods = pods[:need]
		}
	}
	if slices.ContainsFunc(pods, func(w *waiter) bool { return w.nominated }) {
		return needs, false // the room of those is reserved already
	}
	stays := load.Sum{}
	n.steps += len(n.bound) + len(pods)
	for _, b := range n.bound {
		if n.lasts(b) {
			stays.Add(b.keeps().One, 1)
		}
	}
	for _, w := range pods {
		if n.unfit(w.shape) != "" || !n.fits(&stays, w.shape) || times > 1 && n.capacity(&stays, w.shape) < times {
			return needs, false
		}
		stays.Add(w.shape.One, times)
		needs.Add(w.shape.One, times)
	}
	return needs, true
}

// keptFrom returns the reservation of which a waiting pod must take nothing; nil if there is none.
func (n *Node) keptFrom(w *waiter) *reservation {
	r := &n.kept
	if r.first == nil || r.first == w || w.line == r.line && r.line.gang != nil || !r.first.Before(w) {
		return nil
	}
	switch {
	case w.nominated:
		return nil // it has room of its own already, for which others end
	case w.shape.Continues && !r.first.shape.Continues:
		return nil // it is one of those that run, whose end the other one waits for
	}
	switch by := n.keptBy(); {
	case by == never:
	case w.limit > 0 && n.now+w.limit.Seconds() <= by: // it ends in time
		return nil
	case w.line.gang == nil && n.fits(&r.then, w.shape): // there is room for both by then
		return nil
	}
	return r
}

// keptBy returns by when there is room for the one that it is kept for, as the deadlines of those on the node have it.
func (n *Node) keptBy() int64 {
	r := &n.kept
	if r.known {
		return r.by
	}
	r.known, r.by = true, never
	ends := make([]*bound, 0, len(n.bound))
	taken := load.Sum{}
	taken.Merge(&n.used.All)
	n.steps += len(n.bound)
	for _, b := range n.bound {
		if b.ends() != 0 {
			ends = append(ends, b)
		}
	}
	slices.SortFunc(ends, func(a, b *bound) int { return cmp.Or(cmp.Compare(a.ends(), b.ends()), cmp.Compare(a.UID, b.UID)) })
	by := n.now
	for i := 0; ; i++ {
		if n.leaves(&taken, &r.needs) {
			taken.Merge(&r.needs)
			r.by, r.then = by, taken
			return by
		}
		if i == len(ends) {
			return r.by
		}
		taken.Add(ends[i].shape.One, -1)
		by = max(by, ends[i].ends())
	}
}

// leaves reports whether what is taken leaves room for what is needed, and goes with it.
func (n *Node) leaves(taken, needs *load.Sum) bool {
	if more := needs.Pods - needs.Continuing; more > 0 && taken.Pods-taken.Continuing+more > n.MaxPods {
		return false
	}
	if taken.Ports.Meet(needs.Ports) {
		return false
	}
	for id := range needs.Holds {
		if taken.Matches[id] > 0 {
			return false
		}
	}
	for id := range needs.Matches {
		if taken.Holds[id] > 0 {
			return false
		}
	}
	if n.Allocatable == nil {
		return true
	}
	for name, amount := range needs.Amounts {
		if amount > n.free(taken, name) {
			return false
		}
	}
	return true
}

// keeping returns the room that is kept for or from a pod; nil for none.
func (n *Node) keeping(w *waiter) *prospect.Kept {
	first, since, by := n.Keeps()
	switch k := (&prospect.Kept{First: first, Since: since, By: by}); {
	case first == "":
		return nil
	case n.kept.first == w, n.kept.line == w.line && w.line.gang != nil:
		k.Own = true
		return k
	case n.keptFrom(w) != nil:
		return k
	}
	return nil
}

// Keeps returns the pod for which room is kept, or the first of its gang, since when, and by when it has that by the deadlines of those
// that run; zero if they do not say.
func (n *Node) Keeps() (first types.UID, since, by time.Time) {
	if n.kept.first == nil {
		return "", since, by
	}
	if at := n.keptBy(); at != never {
		by = time.Unix(at, 0)
	}
	return n.kept.first.UID, time.Unix(int64(n.kept.since), 0), by
}
