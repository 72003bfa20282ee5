package job

import (
	"iter"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/internal/heap"
)

// Record is what decisions need to know about one Job and its pods. It holds neither the template nor decoded pods. All
// sums are kept up to date, so that folding in a change of a pod takes the same time whatever the size of the Job. It
// must not be used by several goroutines at a time.
type Record struct {
	uid             types.UID
	namespace, name string

	spec          spec
	selector      labels.Selector // nil: see selectsByUID
	failurePolicy *batchv1.PodFailurePolicy
	successPolicy *batchv1.SuccessPolicy
	status        batchv1.JobStatus
	deleting      bool
	pausedFor     time.Duration // see batch.PausedForAnnotation
	gated         bool          // see Hold
	window        *core.Window  // of the Job itself
	ofNamespace   *core.Window  // of its namespace, see Inherit
	written       time.Time     // when the status last changed, zero if it is not known

	pods table[types.UID]
	*indexing

	// Every pod is in at most one of these, see stage.
	lists [stages - 1][]*pod // that of a stage is before its number: there is none of pods that are nowhere

	active, ready, terminating int32
	displaced                  int32 // of the active ones
	restarts                   int64 // of pending and running pods
	succeeded, failed          int32 // tracked pods that have ended and are not yet in the status

	hasty    int             // pods at the stage done that have not ended yet
	shifted  bool            // what the back-off has to remember has changed with another pod
	failJobs map[*pod]string // failed pods that matched a FailJob rule, with its message
	grown    map[*pod]Growth // pods that were killed for want of memory

	counted Memory // of pods whose end is in the status
	backoff Memory // of the tracked ones too

	refusal *refusal // nil: no creation was refused, or all that were are made up for
}

// indexing is what a Record knows of the indexes of an Indexed Job. Records of other Jobs share an empty one: tens of thousands may wait.
type indexing struct {
	byIndex table[int32] // the pods that count, chained

	held                 []heap.Heap[*pod] // the pods at that stage by number of failures
	completed, failedSet Indexes           // also of tracked pods
	changedIndexes       bool              // these sets differ from the status
	occupied             Indexes           // indexes that need no pod
	blocked              Indexes           // with backoffLimitPerIndex: occupied indexes, and those whose back-off is not over
	duplicates           map[int32]bool    // indexes with several active pods
	strays               map[*pod]bool     // active pods without an index of the Job
	successRules         []successRule
}

// notIndexed is never written.
var notIndexed = &indexing{}

// refusal is of creations of pods.
type refusal struct {
	times int       // in a row
	last  time.Time // of them
	slow  int       // how many pods to create at a time
}

// spec is what decisions need of a JobSpec.
type spec struct {
	parallelism, completions   int32 // completions -1: a work queue
	backoffLimit               int32
	perIndex, maxFailedIndexes int32 // -1 for none
	deadline                   int64 // seconds, -1 for none
	suspend, awaitsKueue       bool
	paused                     bool // batch.PausedAnnotation
	onFailure                  bool
	indexed, unknownMode       bool
	replaceFailed, managed     bool
	backoffBase, backoffCap    time.Duration // 0: the daemon's
	grows                      bool          // see batch.OOMMemory
	attempt                    int           // from 1 on, see batch.AttemptsAnnotation
}

func specOf(job *batchv1.Job) spec {
	s := &job.Spec
	base, limit, _ := batch.JobBackoff(job.Annotations) // they were validated when the Job was stored
	mode := ptr.Deref(s.CompletionMode, batchv1.NonIndexedCompletion)
	return spec{
		parallelism:      ptr.Deref(s.Parallelism, 1),
		completions:      ptr.Deref(s.Completions, -1),
		backoffLimit:     ptr.Deref(s.BackoffLimit, 6),
		perIndex:         ptr.Deref(s.BackoffLimitPerIndex, -1),
		maxFailedIndexes: ptr.Deref(s.MaxFailedIndexes, -1),
		deadline:         ptr.Deref(s.ActiveDeadlineSeconds, -1),
		suspend:          ptr.Deref(s.Suspend, false),
		paused:           batch.Paused(job.Annotations),
		awaitsKueue:      batch.AwaitsKueue(&job.ObjectMeta, s),
		onFailure:        s.Template.Spec.RestartPolicy == corev1.RestartPolicyOnFailure,
		indexed:          mode == batchv1.IndexedCompletion,
		unknownMode:      mode != batchv1.IndexedCompletion && mode != batchv1.NonIndexedCompletion,
		replaceFailed:    s.PodFailurePolicy != nil || ptr.Deref(s.PodReplacementPolicy, "") == batchv1.Failed,
		managed:          Managed(job),
		backoffBase:      base,
		backoffCap:       limit,
		grows:            batch.JobOOMMemory(job.Annotations) != nil,
		attempt:          batch.AttemptOf(job.Annotations),
	}
}

// NewRecord makes the record of a stored Job. SetPod is then to be called with its pods. m is the Memory that was
// stored with the Job, nil for none. The Record keeps parts of the Job, which must not be changed in place afterwards.
func NewRecord(job *batchv1.Job, m *Memory) *Record {
	r := &Record{
		uid: job.UID, namespace: job.Namespace, name: job.Name,
		failurePolicy: job.Spec.PodFailurePolicy,
		successPolicy: job.Spec.SuccessPolicy,
	}
	if !selectsByUID(job) {
		r.selector = labels.Nothing()
		if s, err := metav1.LabelSelectorAsSelector(job.Spec.Selector); err == nil {
			r.selector = s // admission lets no other through
		}
	}
	if m != nil {
		r.counted = m.clone()
	}
	r.fold(job)
	r.recount()
	return r
}

// Hold says whether something holds back the Job before it starts: as long as it does, nothing is decided.
func (r *Record) Hold(held bool) { r.gated = held }

// SetJob folds in a new version of the Job, which was stored at now.
func (r *Record) SetJob(job *batchv1.Job, now time.Time) {
	spec, status := r.spec, r.status
	r.fold(job)
	if !sameStatus(&status, &r.status) {
		r.written = now
	}
	switch {
	case spec.attempt != r.spec.attempt: // retry.Begin: nothing that was counted before counts now
		r.counted, r.refusal = Memory{Grown: r.counted.Grown}, nil
		r.recount()
	case spec.indexed != r.spec.indexed, spec.completions != r.spec.completions, spec.replaceFailed != r.spec.replaceFailed:
		r.recount()
	case !r.spec.indexed:
	case status.CompletedIndexes == r.status.CompletedIndexes && ptr.Deref(status.FailedIndexes, "") == ptr.Deref(r.status.FailedIndexes, ""):
	case r.completed.is(r.status.CompletedIndexes) && r.failedSet.is(ptr.Deref(r.status.FailedIndexes, "")):
		r.changedIndexes = false
	default:
		r.recount()
	}
}

func (r *Record) fold(job *batchv1.Job) {
	r.spec = specOf(job)
	r.status = job.Status
	r.deleting = job.DeletionTimestamp != nil
	r.pausedFor = batch.PausedFor(job.Annotations)
	r.foldWindow(job.Annotations)
}

// recount rebuilds all sums from the pods, the status and the memory.
func (r *Record) recount() {
	all := make([]*pod, 0, r.pods.len())
	for p := range r.pods.all() {
		p.next, p.stage, p.pos = nil, nowhere, 0
		all = append(all, p)
	}
	slices.SortFunc(all, func(p, q *pod) int {
		if earlier(p, q) {
			return -1
		}
		return 1
	})
	r.lists, r.hasty, r.shifted = [stages - 1][]*pod{}, 0, false
	r.active, r.ready, r.terminating, r.displaced, r.restarts, r.succeeded, r.failed = 0, 0, 0, 0, 0, 0, 0
	r.indexing = notIndexed
	if r.spec.indexed {
		r.indexing = &indexing{}
		r.completed = *ParseIndexes(r.status.CompletedIndexes, r.spec.completions)
		if r.spec.perIndex >= 0 {
			r.failedSet = *ParseIndexes(ptr.Deref(r.status.FailedIndexes, ""), r.spec.completions)
		}
		r.occupied = *ParseIndexes(r.status.CompletedIndexes, r.spec.completions)
		for first, last, ok := r.failedSet.run(0); ok; first, last, ok = r.failedSet.run(last + 1) {
			r.occupied.addRange(first, last)
		}
		for first, last, ok := r.occupied.run(0); ok; first, last, ok = r.occupied.run(last + 1) {
			if r.spec.perIndex >= 0 {
				r.blocked.addRange(first, last)
			}
		}
		r.changedIndexes = !r.completed.is(r.status.CompletedIndexes) || !r.failedSet.is(ptr.Deref(r.status.FailedIndexes, ""))
		r.successRules = successRules(r.successPolicy, r.spec.completions, &r.completed)
	}
	for _, p := range all {
		r.enter(p)
	}
	r.recall()
}

// SetPod folds in a pod as it is now. It is to be called for every pod that the Job controls, and for orphans that it
// Adopts.
func (r *Record) SetPod(p Pod) {
	c := r.claim(&p)
	q, message := r.compact(&p, c)
	old := r.pods.get(p.UID)
	over := old != nil && (old.stage == done || old.stage == held) // and not counted yet
	switch {
	case c == foreign && over && q.is(isTracked):
		r.forget(old)
		r.recount() // it will not be counted
	case c == foreign || c == ours && !q.is(isTracked) && q.terminal():
		r.drop(old)
	case old == nil:
		r.pods.set(q.uid, q)
		r.killed(q, &p)
		r.enter(q)
		if q.stage == done {
			r.remember(&r.backoff, q)
		}
		r.matched(q, message)
		r.accepted()
	case !old.same(q):
		wasDone, was := old.stage == done, *old
		if was.index == q.index && !q.is(isOrphan|isLeaving) {
			r.detach(old)
		} else {
			r.leave(old)
		}
		if wasDone && !q.is(isTracked) {
			r.remember(&r.counted, old)
		}
		q.uid, q.name = old.uid, old.name // the strings that the pod is known by, which others have too
		*old = *q
		r.killed(old, &p)
		r.enter(old)
		r.matched(old, message)
		switch {
		case over && (q.is(isOrphan|isLeaving) || q.index != was.index || q.phase == succeededPhase && was.phase != q.phase):
			r.recount() // it will be counted as something else than before
		case wasDone && q.is(isTracked):
			r.recall()
		case old.stage == done:
			r.remember(&r.backoff, old)
		}
	}
	r.follow()
}

// DropPod folds in that a pod is gone. A tracked pod that had ended has been counted, or it could not be gone.
func (r *Record) DropPod(uid types.UID) { r.drop(r.pods.get(uid)) }

func (r *Record) drop(p *pod) {
	if p == nil {
		return
	}
	if p.stage == done {
		r.remember(&r.counted, p)
	}
	if p.stage == done || p.stage == held {
		r.grow(&r.counted, p)
		r.grow(&r.backoff, p)
	}
	r.forget(p)
	r.follow()
}

// follow derives the back-off anew when a pod has changed what another one means to it: one that is killed for want of memory is
// held until it is replaced, for example.
func (r *Record) follow() {
	if r.shifted {
		r.recall()
	}
}

func (r *Record) forget(p *pod) {
	r.leave(p)
	delete(r.failJobs, p)
	delete(r.grown, p)
	r.pods.remove(p.uid)
}

// matched records the message of a FailJob rule that matches a pod. With a podFailurePolicy only the phase makes a pod
// failed.
func (r *Record) matched(p *pod, message string) {
	if message == "" || p.phase != failedPhase || p.is(isOrphan|isLeaving) {
		delete(r.failJobs, p)
		return
	}
	if r.failJobs == nil {
		r.failJobs = map[*pod]string{}
	}
	r.failJobs[p] = message
}

// remember records the end of a pod for the back-off, and for the memory of the next.
func (r *Record) remember(m *Memory, p *pod) {
	r.grow(m, p)
	switch {
	case r.spec.perIndex >= 0 || !r.inRange(p):
	case p.phase == succeededPhase:
		m.succeeded(int64(p.finished))
	default:
		m.failed(int64(p.finished))
	}
}

// recall derives the back-off from the memory of counted pods and the pods that are yet to be counted.
func (r *Record) recall() {
	r.backoff, r.shifted = r.counted.clone(), false
	for _, p := range r.at(done) {
		r.remember(&r.backoff, p)
	}
}

// CreationRefused records that a pod could not be created at now, and that the rest of its batch was not tried. Pods
// are then created one, two, four ... at a time, after a delay that grows with each refusal.
func (r *Record) CreationRefused(now time.Time) {
	if r.refusal == nil {
		r.refusal = &refusal{}
	}
	r.refusal.times++
	r.refusal.last, r.refusal.slow = now, 1
}

// RetryCreation ends the delay after refused creations, since what has refused them may allow them now.
func (r *Record) RetryCreation() {
	if r.refusal != nil {
		r.refusal.times = 0
	}
}

// accepted records that a pod was created.
func (r *Record) accepted() {
	if r.refusal != nil {
		r.refusal.times, r.refusal.slow = 0, r.refusal.slow+1
	}
}

// Begun reports whether the Job has a start time, and has not finished.
func (r *Record) Begun() bool { return r.status.StartTime != nil && !r.Finished() }

// Pods yields the UIDs of the pods that count, or have to be released, in no order. Only those that have ended, and were counted, are
// missing.
func (r *Record) Pods() iter.Seq[types.UID] {
	return func(yield func(types.UID) bool) {
		for p := range r.pods.all() {
			if !yield(p.uid) {
				return
			}
		}
	}
}

// Empty reports whether the Job has no pods left that count or have to be released.
func (r *Record) Empty() bool { return r.pods.len() == 0 }
