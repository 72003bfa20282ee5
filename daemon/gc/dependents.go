package gc

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// dependents is the controller that takes in the end of owners: what they have left behind is deleted too (propagation
// Background).
type dependents struct {
	loop.Base
	*Collector
}

// Dependents returns the controller that collects what owners have left behind.
func (c *Collector) Dependents() loop.Controller { return &dependents{Collector: c} }

// Rebuild finds dependents whose owners have gone while the daemon was not running.
func (d *dependents) Rebuild(s *store.Snapshot, _ time.Time) error {
	gone := map[string]struct{}{}
	for resource := range objects.Served() {
		if resource == objects.Pods || resource == objects.Events { // those of pods are found when the pods are read
			continue
		}
		s.Range(resource+"/", "", func(o store.Object) bool {
			for _, owner := range o.Owners {
				gone[owner] = struct{}{}
			}
			return true
		})
	}
	for resource := range objects.Served() {
		if len(gone) == 0 {
			break
		}
		s.Range(resource+"/", "", func(o store.Object) bool {
			delete(gone, o.UID)
			return true
		})
	}
	for owner := range gone {
		d.collect.Add(types.UID(owner))
	}
	return nil
}

// Gone takes in the end of an object, for what it owned and for what owned it.
func (d *dependents) Gone(p *loop.Pass, o store.Object) {
	if storage.Hidden(o.Key) {
		return // its UID is that of an object which may still exist
	}
	d.recheckOwners(&o)
	d.OwnerGone(p, types.UID(o.UID))
}

func (c *Collector) recheckOwners(o *store.Object) {
	for _, owner := range o.Owners {
		c.recheckOwner(types.UID(owner))
	}
}

// Dirty implements loop.Controller.
func (d *dependents) Dirty() bool { return d.collect.Len() > 0 }

// Settle implements loop.Controller.
func (d *dependents) Settle(p *loop.Pass) (bool, error) {
	return d.collect.Settle(func(uid types.UID) error {
		end, err := d.walk(p, uid, func(key string) error { return d.settleDependent(p, key) })
		if !end {
			d.collect.Add(uid)
		}
		return err
	})
}

// settleDependent decides what becomes of an object whose owners are gone or are going: with another owner it stays,
// and belongs to that one; otherwise it is deleted.
func (c *Collector) settleDependent(p *loop.Pass, key string) error {
	if !p.Works(key) {
		return nil
	}
	obj, ok, err := c.objects.Get(p, key)
	if err != nil || !ok {
		return err
	}
	pod, isPod := obj.(*corev1.Pod)
	if !isPod && obj.GetDeletionTimestamp() != nil {
		return nil // it is being deleted already
	}
	o, err := c.ownersOf(p, obj)
	if err != nil || o.unknown || len(o.gone)+len(o.leaving) == 0 {
		return err
	}
	if o.there > 0 {
		uids := o.leaving
		for _, ref := range o.gone {
			uids = append(uids, ref.UID)
		}
		return c.letGo(p, key, obj, uids...)
	}
	if isPod && job.Untrack(pod) { // no Job is left to count it
		p.Figures.FinalizerDeleted(pod)
		p.Pods.Changed(key, pod)
	}
	if obj.GetDeletionTimestamp() == nil && len(o.leaving) > 0 && owns(p, obj.GetUID()) {
		if err := c.breakCircle(p, obj); err != nil {
			return err
		}
		storage.SetPropagation(obj, metav1.DeletePropagationForeground)
		if isPod {
			p.Pods.Changed(key, pod)
		} else {
			storage.MarkDeleted(obj, p.Now, 0)
			if err := c.objects.Changed(p, key, obj); err != nil {
				return err
			}
		}
		c.deleting.Add(key)
		if !isPod {
			return nil
		}
	}
	_, err = c.objects.Delete(p, key)
	return err
}

// letGo removes owners from an object, which lives on without them.
func (c *Collector) letGo(p *loop.Pass, key string, obj objects.Object, owners ...types.UID) error {
	for _, owner := range owners {
		if pod, ok := obj.(*corev1.Pod); ok && objects.ControllingJob(pod) == owner {
			job.Untrack(pod)
			c.jobs.Drop(owner, pod.UID)
		}
		storage.DropOwner(obj, string(owner))
		c.recheckOwner(owner)
	}
	return c.objects.Changed(p, key, obj)
}

// breakCircle lets an object block none of its owners any more if it owns one of those that are going: otherwise each
// would wait for the other.
func (c *Collector) breakCircle(p *loop.Pass, obj objects.Object) (err error) {
	circle := false
	p.Snapshot().Owned(string(obj.GetUID()), "", "", func(key string) bool {
		dependent, ok, failed := c.objects.Get(p, key)
		err = failed
		circle = ok && isLeaving(dependent)
		p.Pods.Drop(key)
		return !circle && err == nil
	})
	if err != nil || !circle {
		return err
	}
	refs := obj.GetOwnerReferences()
	for i := range refs {
		refs[i].BlockOwnerDeletion = nil
		c.recheckOwner(refs[i].UID)
	}
	obj.SetOwnerReferences(refs)
	return nil
}
