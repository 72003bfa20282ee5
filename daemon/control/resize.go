package control

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

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

// resize says whether the node has room for the resources that a client has given to a pod that runs here.
func (a *admission) resize(rec *podRecord, obj *corev1.Pod, now time.Time) pod.Result {
	if !pod.WantsResize(obj) {
		return pod.Result{}
	}
	wanted := node.PodOf(obj)
	wanted.Ahead = rec.request.Ahead
	reason, message := a.capacity.Allocate(obj.UID, wanted, a.keepsRoom(obj.Namespace, now))
	if reason == "" {
		rec.request = wanted
	}
	if reason != corev1.PodReasonDeferred {
		delete(a.deferred, obj.UID)
	} else {
		a.keepRoom(obj.Namespace, now)
		if _, waits := a.deferred[obj.UID]; !waits {
			a.deferred[obj.UID] = deferred{
				rec.key, corev1helpers.PodPriority(obj), obj.Status.QOSClass == corev1.PodQOSGuaranteed, now,
			}
		}
	}
	return pod.Admit(obj, &rec.issued, pod.Verdict{Reason: reason, Message: message}, now)
}

// keepsRoom reports whether room is kept now for a pod of that namespace, if it turns out to wait.
func (a *admission) keepsRoom(namespace string, now time.Time) bool {
	since, ok := a.kept[namespace]
	return !ok || now.Before(since.Add(keepRoomFor)) || !now.Before(since.Add(keepRoomEvery))
}

// keepRoom notes that room is kept for pods of a namespace, and when that ends.
func (a *admission) keepRoom(namespace string, now time.Time) {
	if since, ok := a.kept[namespace]; ok && now.Before(since.Add(keepRoomEvery)) {
		return
	}
	a.kept[namespace] = now
	a.timers.Set(a, namespace, now.Add(keepRoomFor))
}

// yieldRoom frees the room that is kept for pods of a namespace, when they have waited long enough.
func (a *admission) yieldRoom(namespace string, now time.Time) {
	since := a.kept[namespace]
	if now.Before(since.Add(keepRoomEvery)) {
		a.capacity.Yield(namespace)
		a.timers.Set(a, namespace, since.Add(keepRoomEvery))
		return
	}
	delete(a.kept, namespace)
}

// retryResizes looks again at the pods that wait for room to become larger: those of the highest priority first, then the
// Guaranteed ones, then those that have waited longest. It reports whether there are any.
func (a *admission) retryResizes() bool {
	if len(a.deferred) == 0 {
		return false
	}
	for _, d := range slices.SortedFunc(maps.Values(a.deferred), func(x, y deferred) int {
		better := 0
		if x.guaranteed != y.guaranteed {
			better = 1
			if x.guaranteed {
				better = -1
			}
		}
		return cmp.Or(cmp.Compare(y.priority, x.priority), better, x.since.Compare(y.since), cmp.Compare(x.key, y.key))
	}) {
		a.pods.dirty.Add(d.key)
	}
	return true
}
