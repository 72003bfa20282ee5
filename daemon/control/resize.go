package control

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/pod"
)

// Room that frees is kept for the pods of a namespace that are to become larger for keepRoomFor at a time, and not again
// before keepRoomEvery is over. A cluster's scheduler keeps it without end, so that one user who asks for more than there
// will be keeps all others from starting anything.
const (
	keepRoomFor   = 5 * time.Minute
	keepRoomEvery = time.Hour
)

// deferred is a pod on the node that waits for room to become larger (KEP-1287).
type deferred struct {
	key        string
	priority   int32
	guaranteed bool
	since      time.Time
}

// resizes decides about pods on the node that are to become larger.
type resizes struct {
	loop.Base
	timers   *loop.Timers
	capacity *node.Node
	pods     *podRecords
	// deferred are the pods that wait for room.
	deferred map[types.UID]deferred
	// kept are the namespaces for whose pods in deferred room is kept, or was within the last hour, and since when.
	kept map[string]time.Time
}

func newResizes(timers *loop.Timers, capacity *node.Node, pods *podRecords) *resizes {
	return &resizes{
		timers: timers, capacity: capacity, pods: pods, deferred: map[types.UID]deferred{}, kept: map[string]time.Time{},
	}
}

// Due frees the room that is kept for pods of a namespace, when they have waited long enough.
func (r *resizes) Due(p *loop.Pass, namespace string) error {
	r.yieldRoom(namespace, p.Now)
	return nil
}

// forget forgets a pod that has ended or waits no longer.
func (r *resizes) forget(uid types.UID) { delete(r.deferred, uid) }

// resize says whether the node has room for the resources that a client has given to a pod that runs here.
func (r *resizes) resize(rec *podRecord, obj *corev1.Pod, now time.Time) pod.Result {
	if !pod.WantsResize(obj) || pod.IsPaused(obj) {
		return pod.Result{}
	}
	wanted := node.PodOf(obj)
	wanted.Ahead, wanted.Pausable = rec.request.Ahead, rec.request.Pausable
	wanted.SetAccount(rec.request.Account())
	if rec.job != nil {
		wanted.Within(rec.job.ActiveDeadline())
	}
	reason, message := r.capacity.Allocate(obj.UID, wanted, r.keepsRoom(obj.Namespace, now))
	if reason == "" {
		rec.request = wanted
	}
	if reason != corev1.PodReasonDeferred {
		delete(r.deferred, obj.UID)
	} else {
		r.keepRoom(obj.Namespace, now)
		if _, waits := r.deferred[obj.UID]; !waits {
			r.deferred[obj.UID] = deferred{
				rec.key, corev1helpers.PodPriority(obj), obj.Status.QOSClass == corev1.PodQOSGuaranteed, now,
			}
		}
	}
	return pod.Admit(obj, &rec.issued, pod.Verdict{Reason: reason, Message: message}, now)
}

// keepsRoom reports whether room is kept now for a pod of that namespace, if it turns out to wait.
func (r *resizes) keepsRoom(namespace string, now time.Time) bool {
	since, ok := r.kept[namespace]
	return !ok || now.Before(since.Add(keepRoomFor)) || !now.Before(since.Add(keepRoomEvery))
}

// keepRoom notes that room is kept for pods of a namespace, and when that ends.
func (r *resizes) keepRoom(namespace string, now time.Time) {
	if since, ok := r.kept[namespace]; ok && now.Before(since.Add(keepRoomEvery)) {
		return
	}
	r.kept[namespace] = now
	r.timers.Set(r, namespace, now.Add(keepRoomFor))
}

// yieldRoom frees the room that is kept for pods of a namespace, or takes in that it may be kept again.
func (r *resizes) yieldRoom(namespace string, now time.Time) {
	since := r.kept[namespace]
	if now.Before(since.Add(keepRoomEvery)) {
		r.capacity.Yield(namespace)
		r.timers.Set(r, namespace, since.Add(keepRoomEvery))
		return
	}
	delete(r.kept, namespace)
}

// retry looks again at the pods that wait for room to become larger: those of the highest priority first, then the
// Guaranteed ones, then those that have waited longest. It reports whether there are any.
func (r *resizes) retry() bool {
	if len(r.deferred) == 0 {
		return false
	}
	for _, d := range slices.SortedFunc(maps.Values(r.deferred), func(x, y deferred) int {
		better := 0
		if x.guaranteed != y.guaranteed {
			better = 1
			if x.guaranteed {
				better = -1
			}
		}
		return cmp.Or(cmp.Compare(y.priority, x.priority), better, x.since.Compare(y.since), cmp.Compare(x.key, y.key))
	}) {
		r.pods.dirty.Add(d.key)
	}
	return true
}
