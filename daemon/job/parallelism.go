package job

import (
	"cmp"
	"slices"
	"time"
)

// Delays after refused creations, doubled with each.
const (
	refusalBase = time.Second
	refusalCap  = time.Minute
)

// wanted returns the number of pods that should be active. A work queue starts none once a pod has succeeded.
func (d *decision) wanted() int32 {
	s := &d.r.spec
	switch {
	case s.completions >= 0:
		return max(0, min(s.parallelism, s.completions-d.succeeded))
	case d.succeeded > 0:
		return d.active
	}
	return s.parallelism
}

// scale removes surplus pods, or else creates those that are missing.
func (d *decision) scale() {
	r, want := d.r, d.wanted()
	if rm := d.surplus(int(d.active - want)); len(rm) > 0 {
		for _, p := range rm {
			d.remove(p)
		}
		d.More = d.More || d.active < want // some were duplicates: what is missing is created next
		return
	}
	missing := int(want - r.placeholders() - d.active)
	if missing <= 0 {
		return
	}
	for _, until := range []time.Time{r.refusedUntil(), r.backoffUntil(d.s)} {
		if d.now.Before(until) {
			d.wake(until)
			return
		}
	}
	most := min(missing, d.s.Batch)
	if r.refusal != nil {
		most = min(most, r.refusal.slow)
	}
	switch {
	case r.spec.perIndex >= 0:
		var next time.Time
		d.Create, d.replaced, next = r.nextPerIndex(missing, most, d.now, d.s)
		if !next.IsZero() {
			d.wake(next)
		}
	case r.spec.indexed:
		for i := r.occupied.missing(0); i < r.spec.completions && len(d.Create) < most; i = r.occupied.missing(i + 1) {
			d.Create = append(d.Create, NewPod{Index: i, Grown: r.growthOf(i, nil)})
		}
	default:
		for range most {
			d.Create = append(d.Create, NewPod{Index: -1, Grown: r.growthOf(-1, nil)})
		}
	}
	d.active += int32(len(d.Create))
	d.More = d.More || len(d.Create) == most && most < missing
}

func (r *Record) refusedUntil() time.Time {
	if r.refusal == nil || r.refusal.times == 0 {
		return time.Time{}
	}
	delay := refusalBase
	for n := 1; n < r.refusal.times && delay < refusalCap; n++ {
		delay *= 2
	}
	return r.refusal.last.Add(min(delay, refusalCap))
}

// surplus picks active pods to remove, at least so many unless the batch is smaller: first all pods without an index of
// the Job and all but one of each index, then the most expendable ones.
func (d *decision) surplus(atLeast int) []*pod {
	r := d.r
	if atLeast <= 0 && len(r.strays) == 0 && len(r.duplicates) == 0 {
		return nil
	}
	var rm []*pod
	picked := map[*pod]bool{}
	pick := func(pods []*pod) {
		slices.SortFunc(pods, expendable)
		for _, p := range pods {
			rm, picked[p] = append(rm, p), true
		}
	}
	var strays []*pod
	for p := range r.strays {
		strays = append(strays, p)
	}
	pick(strays)
	var same []*pod
	for i := range r.duplicates {
		var pods []*pod
		for p := r.byIndex.get(i); p != nil; p = p.next {
			if p.active() {
				pods = append(pods, p)
			}
		}
		slices.SortFunc(pods, expendable)
		same = append(same, pods[:len(pods)-1]...)
	}
	pick(same)
	if n := min(atLeast, d.s.Batch) - len(rm); n > 0 {
		rm = append(rm, least(r.at(live), n, picked)...)
	}
	if max(atLeast, len(rm)) > d.s.Batch {
		d.More = true
		rm = rm[:d.s.Batch]
	}
	return rm
}

// least returns the n most expendable pods in order, except those that are excluded.
func least(pods []*pod, n int, except map[*pod]bool) []*pod {
	best := make([]*pod, 0, min(2*n, len(pods)))
	var last *pod // of n that are known to come before it
	cut := func() {
		slices.SortFunc(best, expendable)
		if len(best) >= n {
			best, last = best[:n], best[n-1]
		}
	}
	for _, p := range pods {
		if except[p] || last != nil && expendable(p, last) > 0 {
			continue
		}
		if best = append(best, p); len(best) >= 2*n {
			cut()
		}
	}
	cut()
	return best
}

// expendable orders active pods: those to be removed first come first.
func expendable(p, q *pod) int {
	first := func(a, b bool) int { // the one for which it is true comes first
		switch {
		case a == b:
			return 0
		case a:
			return -1
		}
		return 1
	}
	return cmp.Or(
		first(!p.is(isAssigned), !q.is(isAssigned)),
		cmp.Compare(p.phase, q.phase),
		first(!p.is(isReady), !q.is(isReady)),
		cmp.Compare(q.readySince, p.readySince),
		cmp.Compare(q.restarts, p.restarts),
		cmp.Compare(q.created, p.created),
		cmp.Compare(p.name, q.name),
	)
}
