package job

import (
	"math"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// pod is what a Record keeps of a pod. It is small, since a Job may have a hundred thousand of them.
type pod struct {
	uid  types.UID
	name string
	next *pod // of the same index

	index, failures, ignored int32
	restarts                 int32
	pos                      int32  // index in the list of its stage
	created, readySince      uint32 // Unix seconds
	finished                 uint32

	phase  phase
	flags  flags
	action action
	stage  stage
}

type phase uint8

const (
	pendingPhase phase = iota
	unknownPhase
	runningPhase
	succeededPhase
	failedPhase
)

type flags uint8

const (
	isTracked flags = 1 << iota
	isDeleting
	isAssigned
	isReady
	isOrphan  // to be adopted
	isLeaving // to be released
	isDisplaced
)

type action uint8

const (
	noAction action = iota
	ignoreAction
	countAction
	failIndexAction
	failJobAction
)

var actions = map[batchv1.PodFailurePolicyAction]action{
	batchv1.PodFailurePolicyActionIgnore:    ignoreAction,
	batchv1.PodFailurePolicyActionCount:     countAction,
	batchv1.PodFailurePolicyActionFailIndex: failIndexAction,
	batchv1.PodFailurePolicyActionFailJob:   failJobAction,
}

// stage is how far a pod has come, and so the list that it is in: what a decision has to do with it.
type stage uint8

const (
	nowhere  stage = iota
	adopting       // orphans to be adopted
	letting        // to be released
	live           // active
	ending         // tracked, terminating, and not failed before they have ended
	done           // tracked and ended: to be counted
	stages
	held // failed, to be counted when their index gets its next pod, or ends
)

func (p *pod) ref() Ref          { return Ref{p.uid, p.name} }
func (p *pod) is(f flags) bool   { return p.flags&f != 0 }
func (p *pod) terminal() bool    { return p.phase >= succeededPhase }
func (p *pod) active() bool      { return !p.terminal() && !p.is(isDeleting) }
func (p *pod) terminating() bool { return !p.terminal() && p.is(isDeleting) }

// same reports whether p and q are equal but for where they are in the Record.
func (p *pod) same(q *pod) bool {
	a, b := *p, *q
	a.next, a.stage, a.pos = nil, 0, 0
	b.next, b.stage, b.pos = nil, 0, 0
	return a == b
}

// compact returns what is kept of a pod, and the message of a FailJob rule that it matches.
func (r *Record) compact(p *Pod, c claim) (*pod, string) {
	q := &pod{
		uid: p.UID, name: p.Name,
		index: p.Index, failures: p.Failures, ignored: p.IgnoredFailures,
		restarts: p.Restarts,
		created:  seconds(p.Created), readySince: seconds(p.ReadySince), finished: seconds(p.Finished),
	}
	switch p.Phase {
	case corev1.PodRunning:
		q.phase = runningPhase
	case corev1.PodSucceeded:
		q.phase = succeededPhase
	case corev1.PodFailed:
		q.phase = failedPhase
	case corev1.PodUnknown:
		q.phase = unknownPhase
	}
	for _, f := range []struct {
		on   bool
		flag flags
	}{
		{p.Tracked, isTracked}, {p.Deleting, isDeleting}, {p.Assigned, isAssigned}, {p.Ready, isReady},
		{p.Displaced, isDisplaced},
		{c == adoptable, isOrphan}, {c == leaving, isLeaving},
	} {
		if f.on {
			q.flags |= f.flag
		}
	}
	if r.failurePolicy == nil || q.phase == succeededPhase {
		return q, ""
	}
	action, message := match(r.failurePolicy, r.namespace, p)
	q.action = actions[action]
	return q, message
}

func seconds(t int64) uint32 { return uint32(min(max(t, 0), math.MaxUint32)) }

// counts reports whether a pod is one of those summed up in succeeded and failed: tracked, ended, and of one of the
// indexes.
func (r *Record) counts(p *pod) bool {
	return p.is(isTracked) && (p.phase == succeededPhase || r.over(p)) && r.inRange(p)
}

// enter adds a pod to all sums.
func (r *Record) enter(p *pod) {
	switch {
	case p.is(isOrphan):
		r.push(p, adopting)
		return
	case p.is(isLeaving):
		r.push(p, letting)
		return
	case p.active():
		r.push(p, live)
	case p.is(isTracked) && (p.phase == succeededPhase || r.over(p)):
		r.push(p, done)
	case p.is(isTracked):
		r.push(p, ending)
	}
	r.sum(p, 1)
	if !r.spec.indexed {
		return
	}
	if !r.inRange(p) {
		if p.active() {
			add(&r.strays, p)
		}
		return
	}
	p.next = r.byIndex.get(p.index)
	r.byIndex.set(p.index, p)
	if r.counts(p) {
		r.endIndex(p)
	}
	r.refresh(p.index)
}

// leave removes a pod from all sums. Its index stays completed or failed: once the pod is counted the status says so.
func (r *Record) leave(p *pod) {
	r.detach(p)
	if r.spec.indexed && r.inRange(p) && !p.is(isOrphan|isLeaving) {
		r.refresh(p.index)
	}
}

// detach is leave without an update of the index.
func (r *Record) detach(p *pod) {
	r.pull(p)
	if p.is(isOrphan | isLeaving) {
		return
	}
	r.sum(p, -1)
	delete(r.strays, p)
	if !r.spec.indexed || !r.inRange(p) {
		return
	}
	if first := r.byIndex.get(p.index); first == p {
		if p.next == nil {
			r.byIndex.remove(p.index)
		} else {
			r.byIndex.set(p.index, p.next)
		}
	} else {
		for first.next != p {
			first = first.next
		}
		first.next = p.next
	}
	p.next = nil
}

func (r *Record) sum(p *pod, by int32) {
	switch {
	case p.active():
		r.active += by
		if p.is(isReady) {
			r.ready += by
		}
		if p.is(isDisplaced) {
			r.displaced += by
		}
	case p.terminating():
		r.terminating += by
	}
	if p.phase == pendingPhase || p.phase == runningPhase {
		r.restarts += int64(by) * int64(p.restarts)
	}
	if r.counts(p) {
		switch {
		case p.phase == succeededPhase:
			r.succeeded += by
		case p.action != ignoreAction:
			r.failed += by
		}
	}
}

// endIndex records that a pod completed its index or failed it for good. An index ends once: what the status says about
// it stands. Among pods that are yet to be counted one that succeeded wins, in whatever order they are folded in.
func (r *Record) endIndex(p *pod) {
	i := p.index
	switch {
	case r.completed.Has(i):
	case p.phase == succeededPhase && !(r.failedSet.Has(i) && r.statedFailed(i)):
		r.failedSet.Remove(i)
		r.completed.Add(i)
		r.changedIndexes = true
		for n := range r.successRules {
			if rule := &r.successRules[n]; rule.indexes == nil || rule.indexes.Has(i) {
				rule.have++
			}
		}
	case p.phase != succeededPhase && r.failsIndex(p) && r.failedSet.Add(i):
		r.changedIndexes = true
	}
}

// statedFailed reports whether an index is failed according to the stored status.
func (r *Record) statedFailed(i int32) bool {
	return ParseIndexes(ptr.Deref(r.status.FailedIndexes, ""), r.spec.completions).Has(i)
}

// refresh updates whether an index needs a pod, and which of its failed pods is held.
func (r *Record) refresh(i int32) {
	var active int
	var terminating bool
	var last *pod
	for p := r.byIndex.get(i); p != nil; p = p.next {
		switch {
		case p.active():
			active++
		case p.terminating():
			terminating = true
		}
		if r.spec.perIndex >= 0 && p.is(isTracked) && r.over(p) && (last == nil || supersedes(p, last)) {
			last = p
		}
	}
	ended := r.completed.Has(i) || r.failedSet.Has(i)
	if ended || active > 0 {
		last = nil
	}
	if r.spec.perIndex >= 0 {
		for p := r.byIndex.get(i); p != nil; p = p.next {
			to := done
			if p == last {
				to = held
			}
			if p.is(isTracked) && r.over(p) && p.stage != to {
				if _, grows := r.grown[p]; grows {
					r.shifted = true
				}
				r.pull(p)
				r.push(p, to)
			}
		}
	}
	occupied := ended || active > 0 || terminating && r.spec.replaceFailed
	r.occupied.set(i, occupied)
	if r.spec.perIndex >= 0 {
		r.blocked.set(i, occupied || last != nil)
	}
	if active > 1 {
		add(&r.duplicates, i)
	} else {
		delete(r.duplicates, i)
	}
}

func (r *Record) push(p *pod, to stage) {
	p.stage = to
	if to == held {
		n := absoluteFailures(p)
		for len(r.held) <= n {
			r.held = append(r.held, nil)
		}
		r.held[n].Push(p)
		return
	}
	if to == done && !p.terminal() {
		r.hasty++
	}
	list := &r.lists[to-1]
	p.pos = int32(len(*list))
	*list = append(*list, p)
}

// at returns the pods at a stage, but for held.
func (r *Record) at(s stage) []*pod { return r.lists[s-1] }

func (r *Record) pull(p *pod) {
	switch p.stage {
	case nowhere:
	case held:
		r.held[absoluteFailures(p)].Remove(int(p.pos))
	default:
		if p.stage == done && !p.terminal() {
			r.hasty--
		}
		list := r.at(p.stage)
		last := list[len(list)-1]
		list[p.pos], last.pos = last, p.pos
		list[len(list)-1] = nil
		r.lists[p.stage-1] = list[:len(list)-1]
	}
	p.stage, p.pos = nowhere, 0
}

func add[K comparable](set *map[K]bool, k K) {
	if *set == nil {
		*set = map[K]bool{}
	}
	(*set)[k] = true
}
