package control

import (
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/daemon/fairness"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/pod"
)

// queue are the pods that wait for the node, and those that are on it.
type queue struct {
	pods     *podRecords
	capacity *node.Node
	name     string // of the node
	claims   claimsOfPods
	resizes  *resizes
	aside    *aside.List
	fair     *fairness.Policy
	preempts preemptions
	// held are the pods that wait for a claim or a window, and why in a scheduler's words; empty while the volume is being made.
	held map[types.UID]string
	// news are the pods whose reason in held has changed.
	news []types.UID
	// arrivals are pods whose manifests name a node, and that have not been looked at.
	arrivals []types.UID
}

// claimsOfPods knows which pods wait for a claim.
type claimsOfPods interface {
	// Waits returns whether a pod has to wait for a claim, and why in a scheduler's words, if there are any.
	Waits(key string) (why string, waits bool)
	// PodEnded takes in that a pod uses its claims no longer.
	PodEnded(key string)
	// PodOver takes in that nothing is left on the host of a pod that is deleted, while its object still waits for something.
	PodOver(key string, p *corev1.Pod)
}

func newQueue(
	pods *podRecords, capacity *node.Node, name string, claims claimsOfPods, resizes *resizes, aside *aside.List, fair *fairness.Policy,
) *queue {
	return &queue{
		pods: pods, capacity: capacity, name: name, claims: claims, resizes: resizes, aside: aside, fair: fair, held: map[types.UID]string{},
		preempts: preemptions{},
	}
}

// concernOfAdmission is how package loop calls the concern.
const concernOfAdmission = "admission"

// setPod folds in a pod as it now is; known says that it was seen before.
func (q *queue) setPod(rec *podRecord, p *corev1.Pod, known bool) {
	switch {
	case podspec.Ended(p) || p.DeletionTimestamp != nil && !podspec.Bound(p):
		q.gone(p.UID)
		q.claims.PodEnded(rec.key)
	case !podspec.Bound(p) && q.aside.Has(concernOfAdmission, rec.key):
		q.gone(p.UID) // it was set aside: nobody looks for room for it
	case awaitsNode(p):
		q.capacity.Gone(p.UID) // nobody looks for room for it any longer
		if why, waits := q.claims.Waits(rec.key); waits && p.Spec.NodeName == q.name {
			q.hold(p.UID, why)
			return
		}
		if closed := q.closed(rec); closed != "" {
			q.hold(p.UID, closed)
			return
		}
		delete(q.held, p.UID)
		q.arrivals = append(q.arrivals, p.UID)
	case podspec.Bound(p):
		var started time.Time
		if p.Status.StartTime != nil {
			started = p.Status.StartTime.Time
		}
		delete(q.held, p.UID)
		q.awaited(rec)
		q.capacity.Relabel(p)
		q.capacity.Bound(rec.request, started, pod.MakesRoom(p))
		q.displaced(rec, p)
	case len(p.Spec.SchedulingGates) > 0:
	case q.closed(rec) != "":
		q.hold(p.UID, q.closed(rec))
	case rec.job != nil && rec.job.Paused(): // nobody looks for room for it before its Job goes on
		q.gone(p.UID)
	default:
		if why, waits := q.claims.Waits(rec.key); waits {
			q.hold(p.UID, why)
			return
		}
		delete(q.held, p.UID)
		if known { // its tolerations or labels may have changed
			if now := q.requestOf(p, rec.job); !now.Alike(rec.request) {
				q.capacity.Gone(p.UID)
				rec.request = now
			}
		}
		q.capacity.Wait(rec.request, q.awaited(rec) || p.Status.NominatedNodeName != "")
	}
}

// awaited reports whether room was held for a pod before it came, which is its own now.
func (q *queue) awaited(rec *podRecord) bool {
	return rec.job != nil && q.capacity.Arrive(rec.job.key, rec.request)
}

// pauseOf returns how a pod stands to the pauses of its Job, or for others. What is decided counts: one that is to go on has its CPU,
// though its containers may still be frozen. The deadline of the Job may stand still for longer than they are, which takes its time, and
// may fail.
func pauseOf(rec *podRecord, p *corev1.Pod) node.Pause {
	_, displaced := core.DisplacedSince(p)
	pause := node.Pause{Frozen: pod.IsPaused(p) && (displaced || rec.job == nil || rec.job.Paused()), For: core.PausedFor(p)}
	pause.Stands, pause.Later = pause.Frozen || displaced, pause.For
	if rec.job != nil {
		pause.Stands, pause.Later = pause.Stands || rec.job.Stands(), max(pause.Later, rec.job.PausedFor())
	}
	return pause
}

// closed returns why a pod waits for the window of its Job; empty if it does not.
func (q *queue) closed(rec *podRecord) string {
	if rec.job == nil {
		return ""
	}
	return rec.job.WindowClosed()
}

// hold keeps a pod waiting for a claim or a window, whether or not it fits.
func (q *queue) hold(uid types.UID, why string) {
	q.capacity.Gone(uid)
	if was, ok := q.held[uid]; !ok || was != why {
		q.held[uid] = why
		q.news = append(q.news, uid)
	}
}

// gone forgets a pod that has ended or waits no longer.
func (q *queue) gone(uid types.UID) {
	q.capacity.Gone(uid)
	q.resizes.forget(uid)
	delete(q.held, uid)
}

// why returns why a pod waits, empty if it does not, or for something that is soon done.
func (q *queue) why(uid types.UID) string {
	if why, ok := q.held[uid]; ok {
		return node.Hopeless(why)
	}
	return q.capacity.Why(uid)
}

// awaitsNode reports whether a pod names a node that has not taken it yet.
func awaitsNode(obj *corev1.Pod) bool { return obj.Spec.NodeName != "" && !podspec.Bound(obj) }

// podsOf yields the pods of a Job that are known, by what the Job knows of them: not by a look at all pods of the machine.
func (q *queue) podsOf(j *jobRecord) iter.Seq2[types.UID, *podRecord] {
	return func(yield func(types.UID, *podRecord) bool) {
		for uid := range j.Pods() {
			if rec := q.pods.known[uid]; rec != nil && rec.job == j && !yield(uid, rec) {
				return
			}
		}
	}
}

// pausedOrContinued lets the pods of a Job be looked at that was paused or continued, or whose window has opened or closed, and those
// that wait be taken from the queue, or put into it again.
func (q *queue) pausedOrContinued(of *jobRecord) {
	for _, rec := range q.podsOf(of) {
		rec.moved = true
		q.pods.dirty.Add(rec.key)
	}
}

// lookAgain lets the pods of a Job be looked at.
func (q *queue) lookAgain(of *jobRecord) {
	for _, rec := range q.podsOf(of) {
		q.pods.dirty.Add(rec.key)
	}
}

// reorder puts the waiting pods of a Job where they now belong in the queue, and tells of all its pods how long they may run.
func (q *queue) reorder(of *jobRecord) {
	for uid, rec := range q.podsOf(of) {
		moved := *rec.request
		moved.Ahead = node.Ahead(of.ahead)
		moved.Within(of.ActiveDeadline())
		rec.request = &moved
		q.capacity.Reorder(uid, of.ahead, of.ActiveDeadline())
	}
}
