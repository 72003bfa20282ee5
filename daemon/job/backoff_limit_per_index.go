package job

import (
	"math"
	"slices"
	"time"

	"github.com/jobd/jobd/internal/heap"
)

// failsIndex reports whether a failed pod is the last one that spec.backoffLimitPerIndex allows its index.
func (r *Record) failsIndex(p *pod) bool {
	return r.spec.perIndex >= 0 &&
		(p.action == failIndexAction || p.action != ignoreAction && p.failures >= r.spec.perIndex)
}

// supersedes reports whether p is the later failure of the same index, whose counts the next pod carries on.
func supersedes(p, q *pod) bool {
	if a, b := allFailures(p), allFailures(q); a != b {
		return a > b
	}
	return earlier(q, p)
}

// allFailures returns the number of failures of an index, its failed pod included. Those before are annotations, which may be any
// number.
func allFailures(p *pod) int64 { return int64(p.failures) + int64(p.ignored) + 1 }

// absoluteFailures is allFailures up to where more failures would not delay the next pod any longer.
func absoluteFailures(p *pod) int { return int(min(allFailures(p), remembered)) }

// oneMore counts as far as an annotation can say.
func oneMore(n int32) int32 { return n + min(1, math.MaxInt32-n) }

// Before orders held pods with the same number of failures: the one that ended first is on top.
func (p *pod) Before(other *pod) bool { return p.finished < other.finished }

// Moved implements heap.Element.
func (p *pod) Moved(to int) { p.pos = int32(to) }

// due visits the pods at or below node i of the heap that ended at or before limit, and returns the earliest end of the
// other ones that it comes across, 0 for none.
func due(h heap.Heap[*pod], i int, limit int64, visit func(*pod)) (next int64) {
	if i >= len(h) {
		return 0
	}
	if end := int64(h[i].finished); end > limit {
		return end
	}
	visit(h[i])
	for _, child := range []int{2*i + 1, 2*i + 2} {
		if end := due(h, child, limit, visit); end > 0 && (next == 0 || end < next) {
			next = end
		}
	}
	return next
}

// nextPerIndex picks at most most pods to create, for as many of the lowest missing indexes as are wanted. Each index
// has a back-off of its own; an index whose back-off is not over keeps its place among those wanted. It also returns
// the held pods that the new ones replace, and when the next back-off ends.
func (r *Record) nextPerIndex(
	wanted, most int, now time.Time, s Settings,
) (create []NewPod, replaced []*pod, next time.Time) {
	last := min(r.occupied.nthMissing(wanted), r.spec.completions-1)
	for i := r.blocked.missing(0); i <= last && len(create) < most; i = r.blocked.missing(i + 1) {
		create = append(create, NewPod{Index: i, PerIndex: true, Grown: r.growthOf(i, nil)})
	}
	for n, pods := range r.held {
		delay := r.delay(n, s)
		end := due(pods, 0, now.Add(-delay).Unix(), func(p *pod) {
			if p.index <= last && !r.occupied.Has(p.index) {
				replaced = append(replaced, p)
			}
		})
		if at := time.Unix(end, 0).Add(delay); end > 0 && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	for _, p := range replaced {
		n := replacement(p)
		n.Grown = r.growthOf(p.index, p)
		create = append(create, n)
	}
	slices.SortFunc(create, func(a, b NewPod) int { return int(a.Index - b.Index) })
	if len(create) > most {
		create = create[:most]
		replaced = slices.DeleteFunc(replaced, func(p *pod) bool { return p.index > create[most-1].Index })
	}
	return create, replaced, next
}

// replacement returns the pod that follows a failed one and carries on its failure counts.
func replacement(p *pod) NewPod {
	n := NewPod{Index: p.index, PerIndex: true, Failures: p.failures, IgnoredFailures: p.ignored}
	if p.action == ignoreAction {
		n.IgnoredFailures = oneMore(n.IgnoredFailures)
	} else {
		n.Failures = oneMore(n.Failures)
	}
	return n
}
