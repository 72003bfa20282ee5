package daemon

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/store"
)

// settleDependent decides what becomes of an object whose owners are gone or leave: with another owner it stays, as
// that one's, and else it goes.
func (p *pass) settleDependent(key string) error {
	obj, ok, err := p.any(key)
	if err != nil || !ok {
		return err
	}
	pod, isPod := obj.(*corev1.Pod)
	if !isPod && obj.GetDeletionTimestamp() != nil {
		return nil // it goes already
	}
	o, err := p.ownersOf(obj)
	if err != nil || o.unknown || len(o.gone)+len(o.leaving) == 0 {
		return err
	}
	if o.there > 0 {
		uids := o.leaving
		for _, ref := range o.gone {
			uids = append(uids, ref.UID)
		}
		return p.letGo(key, obj, uids...)
	}
	if isPod && job.Untrack(pod) { // nobody is left to count it
		p.countFinalizer(pod, "delete")
		p.pods.Changed(key, pod)
	}
	if obj.GetDeletionTimestamp() == nil && len(o.leaving) > 0 && p.owns(obj.GetUID()) {
		if err := p.breakCircle(obj); err != nil {
			return err
		}
		storage.SetPropagation(obj, metav1.DeletePropagationForeground)
		if isPod {
			p.pods.Changed(key, pod)
		} else {
			storage.MarkDeleted(obj, p.now, 0)
			if err := p.changed(key, obj); err != nil {
				return err
			}
		}
		p.records.deleting.add(key)
		if !isPod {
			return nil
		}
	}
	_, err = p.deleteAny(key)
	return err
}

// letGo takes owners from an object, which lives on without them.
func (p *pass) letGo(key string, obj object, owners ...types.UID) error {
	for _, owner := range owners {
		if pod, ok := obj.(*corev1.Pod); ok && controllingJob(pod) == owner {
			job.Untrack(pod)
			if rec, ok := p.records.jobs[owner]; ok {
				rec.DropPod(pod.UID)
			}
		}
		storage.DropOwner(obj, string(owner))
		p.tellWaiting(owner)
	}
	return p.changed(key, obj)
}

// breakCircle lets an object hold none of its owners any more, if it owns one that is leaving: each would wait for the
// other.
func (p *pass) breakCircle(obj object) (err error) {
	circle := false
	p.tx.Owned(string(obj.GetUID()), "", func(key string) bool {
		dependent, ok, failed := p.any(key)
		err = failed
		circle = ok && isLeaving(dependent)
		return !circle && err == nil
	})
	if err != nil || !circle {
		return err
	}
	refs := obj.GetOwnerReferences()
	for i := range refs {
		refs[i].BlockOwnerDeletion = nil
		p.tellWaiting(refs[i].UID)
	}
	obj.SetOwnerReferences(refs)
	return nil
}

// orphan lets all that an owner owns live on without it (propagation Orphan), over as many passes as that takes. It
// tells whether all of it is free.
func (p *pass) orphan(owner types.UID, ownerKey string) (bool, error) {
	end, err := p.walk(owner, func(key string) error {
		obj, ok, err := p.any(key)
		if err != nil || !ok || !ownedBy(obj, owner) {
			return err
		}
		return p.letGo(key, obj, owner)
	})
	if err != nil || !end {
		p.records.deleting.add(ownerKey)
	}
	return end, err
}

// deleteFirst asks all that an owner owns to go before it (propagation Foreground), over as many passes as that takes,
// and tells whether none is left that holds it (OwnerReference.BlockOwnerDeletion).
func (p *pass) deleteFirst(owner types.UID, ownerKey string) (bool, error) {
	if _, asked := p.records.waiting[owner]; !asked {
		if end, err := p.walk(owner, p.settleDependent); err != nil || !end {
			p.records.deleting.add(ownerKey)
			return false, err
		}
		// From now on the end of each brings the loop back here.
		p.records.waiting[owner] = ownerKey
	}
	none := true
	var err error
	p.tx.Owned(string(owner), "", func(key string) bool {
		if err = p.settleDependent(key); err != nil { // again, since it may have come later than the others
			return false
		}
		obj, ok, failed := p.any(key)
		none, err = !ok || !storage.BlocksOwner(obj, string(owner)), failed
		return none && err == nil
	})
	return none, err
}

// noteOwnerless finds the owners that are gone while nobody looked, and have left dependents.
func (r *records) noteOwnerless(s *store.Snapshot) {
	gone := map[string]struct{}{}
	for resource := range served() {
		if resource == pods || resource == eventsV1 { // of the former, readPods finds them
			continue
		}
		s.Range(resource+"/", "", func(o store.Object) bool {
			for _, owner := range o.Owners {
				gone[owner] = struct{}{}
			}
			return true
		})
	}
	for resource := range served() {
		if len(gone) == 0 {
			return
		}
		s.Range(resource+"/", "", func(o store.Object) bool {
			delete(gone, o.UID)
			return true
		})
	}
	for owner := range gone {
		r.collect.add(types.UID(owner))
	}
}

// noteDeletions finds what is being deleted and whose dependents are to be dealt with first, but for Jobs, CronJobs and
// pods, which are read anyway.
func (r *records) noteDeletions(s *store.Snapshot) error {
	for resource, k := range served() {
		switch resource {
		case pods, jobs, cronJobs, namespaces, eventsV1:
			continue
		}
		if err := each(s, resource, func() object { return k.New().(object) }, func(key string, obj object) error {
			r.noteDeletion(key, obj)
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

func (r *records) noteDeletion(key string, obj metav1.Object) {
	if obj.GetDeletionTimestamp() != nil && storage.Propagation(obj) != metav1.DeletePropagationBackground {
		r.deleting.add(key)
	}
}
