package gc

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// deletions is the controller that completes the deletion of objects: together with their dependents (propagation
// Foreground), or without them (Orphan). An object is removed with its last finalizer.
type deletions struct {
	loop.Base
	*Collector
}

// Deletions returns the controller that completes the deletion of objects.
func (c *Collector) Deletions() loop.Controller { return &deletions{Collector: c} }

// Rebuild finds the objects that are being deleted and whose dependents have to go first. Jobs, CronJobs and pods are
// left out, since their controllers read them anyway.
func (d *deletions) Rebuild(s *store.Snapshot, _ time.Time) (err error) {
	for resource, k := range objects.Served() {
		switch resource {
		case objects.Pods, objects.Jobs, objects.CronJobs, objects.Namespaces, objects.Events:
			continue
		}
		s.Range(resource+"/", "", func(o store.Object) bool {
			obj := k.New()
			if err = objects.Decode(o, obj); err == nil {
				d.NoteDeletion(o.Key, obj.(objects.Object))
			}
			return err == nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Fold notes objects that are being deleted. Namespaces are left out, which have contents instead of dependents, and so
// are Jobs and CronJobs, which their own controllers look at.
func (d *deletions) Fold(p *loop.Pass, c loop.Change) error {
	if c.Deleted || objects.Served()[c.Resource] == nil {
		return nil
	}
	switch c.Resource {
	case objects.Namespaces, objects.Events, objects.Jobs, objects.CronJobs:
		return nil
	}
	obj, ok, err := d.objects.Get(p, c.Object.Key)
	if err == nil && ok {
		d.NoteDeletion(c.Object.Key, obj)
	}
	return err
}

// Dirty implements loop.Controller.
func (d *deletions) Dirty() bool { return d.deleting.Len() > 0 }

// Settle implements loop.Controller.
func (d *deletions) Settle(p *loop.Pass) (bool, error) {
	return d.deleting.Settle(func(key string) error { return d.settleDeletion(p, key) })
}

func (d *deletions) settleDeletion(p *loop.Pass, key string) error {
	if !p.Works(key) {
		return nil
	}
	obj, ok, err := d.objects.Get(p, key)
	if err != nil || !ok || obj.GetDeletionTimestamp() == nil {
		return err
	}
	switch storage.Propagation(obj) {
	case metav1.DeletePropagationOrphan:
		if done, err := d.orphan(p, obj.GetUID(), key); err != nil || !done {
			return err
		}
		return d.dropFinalizer(p, key, obj, metav1.FinalizerOrphanDependents)
	case metav1.DeletePropagationForeground:
		if done, err := d.deleteFirst(p, obj, key); err != nil || !done {
			return err
		}
		if slices.Contains(obj.GetFinalizers(), clusters.Finalizer) { // its pods are in the cluster as well, for which the forwarder waits
			return nil
		}
		return d.dropFinalizer(p, key, obj, metav1.FinalizerDeleteDependents)
	}
	if storage.Removable(obj) {
		return d.objects.Remove(p, key, obj)
	}
	return nil
}

// dropFinalizer removes a finalizer from an object. With the last one the object is removed, and the last state that
// watchers see still has it.
func (d *deletions) dropFinalizer(p *loop.Pass, key string, obj objects.Object, finalizer string) error {
	if j, ok := obj.(*batchv1.Job); ok {
		if err := p.Jobs.Write(objects.Key(objects.Jobs, j)); err != nil {
			return err
		}
	}
	storage.DropFinalizer(obj, finalizer)
	if _, isPod := obj.(*corev1.Pod); !isPod && storage.Removable(obj) {
		return d.objects.Remove(p, key, obj)
	}
	return d.objects.Changed(p, key, obj)
}

// orphan removes an owner from all its dependents (propagation Orphan), over as many passes as that takes. It reports
// whether none is left.
func (d *deletions) orphan(p *loop.Pass, owner types.UID, ownerKey string) (bool, error) {
	end, err := d.walk(p, owner, func(key string) error {
		obj, ok, err := d.objects.Get(p, key)
		if err != nil || !ok || !ownedBy(obj, owner) {
			return err
		}
		return d.letGo(p, key, obj, owner)
	})
	if err != nil || !end {
		d.deleting.Add(ownerKey)
	}
	return end, err
}

func ownedBy(obj metav1.Object, uid types.UID) bool {
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == uid })
}

// deleteFirst deletes all dependents of an owner (propagation Foreground), over as many passes as that takes, and
// reports whether none is left that blocks the owner (OwnerReference.BlockOwnerDeletion).
func (d *deletions) deleteFirst(p *loop.Pass, of metav1.Object, ownerKey string) (bool, error) {
	owner := of.GetUID()
	if _, asked := d.waiting[owner]; !asked {
		if end, err := d.walk(p, owner, func(key string) error { return d.settleDependent(p, key) }); err != nil || !end {
			d.deleting.Add(ownerKey)
			return false, err
		}
		// From now on the end of each dependent brings the loop back here.
		d.waiting[owner] = ownerKey
	}
	none := true
	var err error
	p.Snapshot().Owned(string(owner), "", "", func(key string) bool {
		if err = d.settleDependent(p, key); err != nil { // again, since this one may have come later than the others
			return false
		}
		obj, ok, failed := d.objects.Get(p, key)
		none, err = !ok || !storage.BlocksOwner(obj, of), failed
		p.Pods.Drop(key)
		return none && err == nil
	})
	return none, err
}
