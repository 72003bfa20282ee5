package daemon

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/ttl"
)

// collect follows the end of an owner: what it has left behind goes too (propagation Background).
func (p *pass) collect(uid types.UID) error {
	end, err := p.walk(uid, p.settleDependent)
	if !end {
		p.records.collect.add(uid)
	}
	return err
}

// settleDeletion brings an object that is being deleted to its end: with its dependents (propagation Foreground), or
// without them (Orphan). The object goes with its last finalizer.
func (p *pass) settleDeletion(key string) error {
	obj, ok, err := p.any(key)
	if err != nil || !ok || obj.GetDeletionTimestamp() == nil {
		return err
	}
	switch storage.Propagation(obj) {
	case metav1.DeletePropagationOrphan:
		if done, err := p.orphan(obj.GetUID(), key); err != nil || !done {
			return err
		}
		return p.dropFinalizer(key, obj, metav1.FinalizerOrphanDependents)
	case metav1.DeletePropagationForeground:
		if done, err := p.deleteFirst(obj.GetUID(), key); err != nil || !done {
			return err
		}
		return p.dropFinalizer(key, obj, metav1.FinalizerDeleteDependents)
	}
	if storage.Removable(obj) {
		return p.remove(key, obj)
	}
	return nil
}

// dropFinalizer takes a finalizer from an object. With its last one the object goes, and the state that watchers see
// last still has it.
func (p *pass) dropFinalizer(key string, obj object, finalizer string) error {
	if j, ok := obj.(*batchv1.Job); ok {
		if err := p.jobs.Write(keyOf(jobs, j)); err != nil {
			return err
		}
	}
	storage.DropFinalizer(obj, finalizer)
	if _, isPod := obj.(*corev1.Pod); !isPod && storage.Removable(obj) {
		return p.remove(key, obj)
	}
	return p.changed(key, obj)
}

func (p *pass) removeJob(key string, j *batchv1.Job) error {
	if err := p.jobs.Delete(key); err != nil {
		return err
	}
	p.jobGone(j.UID, key)
	return nil
}

// expire deletes a finished Job whose time has come (JobSpec.TTLSecondsAfterFinished), its pods first.
func (p *pass) expire(key string) error {
	j, ok, err := p.jobs.Get(key)
	if err != nil || !ok {
		return err
	}
	at, ok := ttl.Expires(j)
	if !ok {
		return nil
	}
	if at.After(p.now) { // it has been changed, or the clock was set back
		p.records.due.Set(timerKey{dueTTL, key}, at)
		return nil
	}
	p.figures.expiries = append(p.figures.expiries, p.now.Sub(at))
	storage.MarkDeleted(j, p.now, 0)
	storage.SetPropagation(j, metav1.DeletePropagationForeground)
	p.jobs.Changed(key, j)
	return p.setJob(key, j)
}
