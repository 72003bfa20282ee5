package daemon

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/pod"
)

// settlePod brings a pod's status up to date and finds out what it needs now.
func (p *pass) settlePod(key string) error {
	obj, ok, err := p.pods.Get(key)
	if err != nil || !ok {
		return err
	}
	rec, ok := p.records.pods[obj.UID]
	if !ok {
		return nil // nothing is left to be done for it
	}
	ended := pod.Terminal(obj)
	result := pod.Apply(obj, &rec.issued, p.observed[obj.UID], p.now)
	p.figures.observations += len(p.observed[obj.UID])
	delete(p.observed, obj.UID)
	for _, e := range result.Events {
		about := podReference(obj)
		about.FieldPath = e.FieldPath
		if err := p.event(about, events.Kubelet, e.Type, e.Reason, e.Message); err != nil {
			return err
		}
	}
	actions, wake := pod.Next(obj, &rec.issued, p.now)
	rec.issued.Record(actions, p.now)
	p.records.due.Set(timerKey{duePod, key}, wake)
	if len(actions) > 0 {
		p.effects = append(p.effects, effect{pod: obj, actions: actions})
	}
	if result.Changed {
		p.pods.Changed(key, obj)
	}
	if !ended && slices.Contains(obj.Finalizers, batchv1.JobTrackingFinalizer) {
		p.countFinalizer(obj, "add")
	}
	if removed, err := p.removeIfOver(key, obj); err != nil || removed {
		return err
	}
	if !result.Changed {
		return nil
	}
	owner, err := p.jobOf(obj)
	if err != nil {
		return err
	}
	p.records.setPod(key, obj, owner)
	if owner != "" {
		p.records.dirtyJobs.add(owner)
	}
	return nil
}

// deletePod asks a pod to end, with the grace of its spec, as its owner's end or decision wants it. It tells whether the
// pod is gone: one that has ended goes at once.
func (p *pass) deletePod(key string, uid types.UID) (gone bool, err error) {
	obj, ok, err := p.pods.Get(key)
	if err != nil || !ok || obj.UID != uid {
		return err == nil, err
	}
	if obj.DeletionTimestamp == nil {
		var grace int64
		if g := obj.Spec.TerminationGracePeriodSeconds; g != nil && !pod.Done(obj) && !pod.Terminal(obj) {
			grace = *g
		}
		storage.MarkDeleted(obj, p.now, grace)
		p.pods.Changed(key, obj)
	}
	if gone, err := p.removeIfOver(key, obj); err != nil || gone {
		return gone, err
	}
	return false, p.touch(key, obj)
}

// removeIfOver removes the object of a pod that was deleted, once it has ended and nobody holds it.
func (p *pass) removeIfOver(key string, obj *corev1.Pod) (bool, error) {
	if obj.DeletionTimestamp == nil || !pod.Done(obj) {
		return false, nil
	}
	if storage.MarkDeleted(obj, p.now, 0) {
		p.pods.Changed(key, obj)
	}
	if !storage.Removable(obj) {
		return false, nil
	}
	if err := p.pods.Delete(key); err != nil {
		return false, err
	}
	p.podGone(obj, key)
	return true, nil
}
