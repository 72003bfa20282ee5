// Package kinds reads, changes and removes objects of any kind by the rules of their kind, on behalf of those who delete them: the garbage
// collector, what empties namespaces, and others. For pods, Jobs and CronJobs their controllers know more than what is stored.
//
// Keys and objects come in. What goes out are changes in the pass, of which those controllers are told.
package kinds

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/cronjobs"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/volumes"
)

// Kinds are the objects of all kinds. It implements gc.Objects, namespace.Deleter and upkeep.Deleter.
type Kinds struct {
	Pods     Pods
	Jobs     Jobs
	CronJobs *cronjobs.CronJobs
	Claims   *volumes.Claims
}

// Pods changes and removes pods.
type Pods interface {
	// Touch folds in a pod as it now is.
	Touch(p *loop.Pass, key string, obj *corev1.Pod) error
	// Delete deletes a pod with its grace, and reports whether it is gone.
	Delete(p *loop.Pass, key string, uid types.UID) (bool, error)
	// DeleteForOthers does so with no more grace than a pod has that others wait for.
	DeleteForOthers(p *loop.Pass, key string, uid types.UID) (bool, error)
	// RemoveIfOver removes a pod that is being deleted, and of which nothing is left, and reports whether it has.
	RemoveIfOver(p *loop.Pass, key string, obj *corev1.Pod) (bool, error)
}

// Jobs changes and removes Jobs.
type Jobs interface {
	// Set folds in a Job as it now is.
	Set(p *loop.Pass, key string, j *batchv1.Job) error
	// Remove removes a Job.
	Remove(p *loop.Pass, key string, j *batchv1.Job) error
}

// Get returns an object as the pass has left it. It may be changed if Changed is called afterwards.
func (k *Kinds) Get(p *loop.Pass, key string) (objects.Object, bool, error) {
	resource := objects.ResourceOf(key)
	switch resource {
	case objects.Pods:
		return viewed(p.Pods, key)
	case objects.Jobs:
		return viewed(p.Jobs, key)
	case objects.CronJobs:
		return viewed(p.CronJobs, key)
	}
	served := objects.Served()[resource]
	if served == nil {
		return nil, false, nil
	}
	obj, ok := served.New().(objects.Object)
	if !ok {
		return nil, false, fmt.Errorf("%s: %T is no object", key, served.New())
	}
	ok, err := objects.Read(p, key, obj)
	return obj, ok, err
}

func viewed[T objects.Object](v *loop.View[T], key string) (objects.Object, bool, error) {
	obj, ok, err := v.Get(key)
	if err != nil || !ok {
		return nil, false, err
	}
	return obj, true, nil
}

// Changed writes an object and takes in what follows from the change.
func (k *Kinds) Changed(p *loop.Pass, key string, obj objects.Object) error {
	switch obj := obj.(type) {
	case *corev1.Pod:
		p.Pods.Changed(key, obj)
		return k.Pods.Touch(p, key, obj)
	case *batchv1.Job:
		p.Jobs.Changed(key, obj)
		return k.Jobs.Set(p, key, obj)
	case *batchv1.CronJob:
		p.CronJobs.Changed(key, obj)
		k.CronJobs.Set(p, key, obj)
		return nil
	}
	k.Claims.Changed(key)
	return p.Put(key, obj)
}

// Remove removes an object that nothing holds any more.
func (k *Kinds) Remove(p *loop.Pass, key string, obj objects.Object) error {
	switch obj := obj.(type) {
	case *corev1.Pod:
		_, err := k.Pods.RemoveIfOver(p, key, obj)
		return err
	case *batchv1.Job:
		return k.Jobs.Remove(p, key, obj)
	case *batchv1.CronJob:
		return k.CronJobs.Remove(p, key, obj)
	}
	p.Delete(key)
	return nil
}

// Delete deletes an object as a client's request without options would, and reports whether it is gone.
func (k *Kinds) Delete(p *loop.Pass, key string) (bool, error) { return k.delete(p, key, false) }

// DeleteAlone does so whatever was to become of the object's dependents: it waits for none of them. In a namespace that is
// emptied they go as well, and an object that waits for itself, or for one that waits for it, would stay for ever.
func (k *Kinds) DeleteAlone(p *loop.Pass, key string) (bool, error) { return k.delete(p, key, true) }

func (k *Kinds) delete(p *loop.Pass, key string, alone bool) (bool, error) {
	resource := objects.ResourceOf(key)
	if resource != objects.Pods && objects.Served()[resource] == nil {
		p.Delete(key) // no client sees it
		return true, nil
	}
	obj, ok, err := k.Get(p, key)
	if err != nil || !ok {
		return err == nil, err
	}
	changed := alone && storage.SetPropagation(obj, metav1.DeletePropagationBackground)
	if pod, ok := obj.(*corev1.Pod); ok {
		if changed {
			p.Pods.Changed(key, pod)
		}
		if alone {
			return k.Pods.DeleteForOthers(p, key, pod.UID)
		}
		return k.Pods.Delete(p, key, pod.UID)
	}
	if len(obj.GetFinalizers()) == 0 {
		return true, k.Remove(p, key, obj)
	}
	cj, isCronJob := obj.(*batchv1.CronJob)
	switch marked := storage.MarkDeleted(obj, p.Now, 0); {
	case marked || changed:
		return false, k.Changed(p, key, obj)
	case isCronJob:
		k.CronJobs.Set(p, key, cj)
	}
	return false, nil
}
