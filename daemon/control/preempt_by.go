package control

import (
	"fmt"
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/pod"
)

// What is to become of pods that others of a higher priority displace (core.PreemptByAnnotation). That a pod is displaced is stored as a
// condition of it, in the transaction in which others are given its CPU: the worker is told of that after, and again at every start,
// until the containers are frozen. That it goes on is stored in the same way, and its CPU is its own again from then on.

// preemptions are the namespaces that say what becomes of the pods of their Jobs, and what.
type preemptions map[string]string

// set takes in a namespace, and reports whether it says something else now.
func (n preemptions) set(namespace string, annotations map[string]string) (changed bool) {
	was, now := n[namespace], annotations[core.PreemptByAnnotation]
	if now == "" {
		delete(n, namespace)
	} else {
		n[namespace] = now
	}
	return was != now
}

// pausable reports whether pods of a Job are paused rather than ended. A pod without a Job is ended: nobody could say otherwise.
func (q *queue) pausable(namespace string, of *jobRecord) bool {
	switch {
	case of == nil:
		return false
	case of.preemptBy != "":
		return of.preemptBy == core.PreemptByPause
	}
	return q.preempts[namespace] == core.PreemptByPause
}

// podsIn yields the known pods of a namespace.
func (q *queue) podsIn(namespace string) iter.Seq2[types.UID, *podRecord] {
	return func(yield func(types.UID, *podRecord) bool) {
		for uid, rec := range q.pods.known {
			if in, _ := objects.NameOf(rec.key); in == namespace && !yield(uid, rec) {
				return
			}
		}
	}
}

// judgePausable tells the node of pods for which it may have changed whether they are paused.
func (q *queue) judgePausable(pods iter.Seq2[types.UID, *podRecord]) {
	for uid, rec := range pods {
		namespace, _ := objects.NameOf(rec.key)
		if pausable := q.pausable(namespace, rec.job); pausable != rec.request.Pausable {
			changed := *rec.request
			changed.Pausable = pausable
			rec.request = &changed
			q.capacity.Pausable(uid, pausable)
		}
	}
}

// displaced folds in whether a pod on the node is paused, and for whom.
func (q *queue) displaced(rec *podRecord, p *corev1.Pod) {
	held := rec.job != nil && rec.job.Paused()
	since, displaced := core.DisplacedSince(p)
	if displaced {
		q.capacity.Displaced(p.UID, since, held)
	} else {
		q.capacity.Displaced(p.UID, time.Time{}, held)
	}
	q.capacity.Freeze(p.UID, pauseOf(rec, p))
}

// pause lets a pod be frozen whose CPU others are to have.
func (a *admission) pause(p *loop.Pass, uid, other types.UID) error {
	key, obj, err := a.pods.get(p, uid)
	if err != nil || obj == nil {
		return err
	}
	message := fmt.Sprintf("Paused for pod %s on node %s (%s)", other, a.name, core.PreemptByAnnotation)
	return a.displace(p, key, obj, corev1.ConditionTrue, core.ReasonPreempted, message)
}

// goOn lets a pod go on whose CPU is free again.
func (a *admission) goOn(p *loop.Pass, uid types.UID) error {
	key, obj, err := a.pods.get(p, uid)
	if err != nil || obj == nil {
		return err
	}
	return a.displace(p, key, obj, corev1.ConditionFalse, "Continued", "Its CPU is free again on node "+a.name)
}

func (a *admission) displace(p *loop.Pass, key string, obj *corev1.Pod, status corev1.ConditionStatus, reason, message string) error {
	setPodCondition(obj, corev1.PodCondition{Type: core.PodDisplaced, Status: status, Reason: reason, Message: message}, p.Now)
	p.Pods.Changed(key, obj)
	if err := p.Event(objects.PodReference(obj), events.Scheduler, corev1.EventTypeNormal, reason, message); err != nil {
		return err
	}
	return a.changes.Touch(p, key, obj)
}

// endUnpausable ends a pod that cannot be frozen, such as for a process that hangs in the kernel: others wait for its CPU.
func (c *pods) endUnpausable(p *loop.Pass, key string, obj *corev1.Pod) error {
	if _, displaced := core.DisplacedSince(obj); !displaced || !pod.CannotPause(obj) || podspec.Ended(obj) {
		return nil
	}
	return c.Disrupt(p, key, obj, corev1.PodReasonPreemptionByScheduler, preempting)
}
