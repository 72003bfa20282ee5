package control

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/cronjobs"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/volumes"
)

// kinds reads and changes objects of any kind on behalf of those who delete them. For pods, Jobs and CronJobs their
// controllers know more than what is stored. It implements gc.Objects and namespace.Deleter.
type kinds struct {
	pods     *pods
	jobs     *jobs
	cronJobs *cronjobs.CronJobs
	claims   *volumes.Claims
}

// Get returns an object as the pass has left it. It may be changed if Changed is called afterwards.
func (k *kinds) Get(p *loop.Pass, key string) (objects.Object, bool, error) {
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
func (k *kinds) Changed(p *loop.Pass, key string, obj objects.Object) error {
	switch obj := obj.(type) {
	case *corev1.Pod:
		p.Pods.Changed(key, obj)
		return k.pods.touch(p, key, obj)
	case *batchv1.Job:
		p.Jobs.Changed(key, obj)
		return k.jobs.Set(p, key, obj)
	case *batchv1.CronJob:
		p.CronJobs.Changed(key, obj)
		k.cronJobs.Set(p, key, obj)
		return nil
	}
	k.claims.Changed(key)
	return p.Put(key, obj)
}

// Remove removes an object that nothing holds any more.
func (k *kinds) Remove(p *loop.Pass, key string, obj objects.Object) error {
	switch obj := obj.(type) {
	case *corev1.Pod:
		_, err := k.pods.removeIfOver(p, key, obj)
		return err
	case *batchv1.Job:
		return k.jobs.remove(p, key, obj)
	case *batchv1.CronJob:
		return k.cronJobs.Remove(p, key, obj)
	}
	p.Delete(key)
	return nil
}

// Delete deletes an object as a client's request without options would, and reports whether it is gone.
func (k *kinds) Delete(p *loop.Pass, key string) (bool, error) {
	resource := objects.ResourceOf(key)
	if resource != objects.Pods && objects.Served()[resource] == nil {
		p.Delete(key) // no client sees it
		return true, nil
	}
	obj, ok, err := k.Get(p, key)
	if err != nil || !ok {
		return err == nil, err
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		return k.pods.delete(p, key, pod.UID)
	}
	if len(obj.GetFinalizers()) == 0 {
		return true, k.Remove(p, key, obj)
	}
	cj, isCronJob := obj.(*batchv1.CronJob)
	switch marked := storage.MarkDeleted(obj, p.Now, 0); {
	case marked:
		return false, k.Changed(p, key, obj)
	case isCronJob:
		k.cronJobs.Set(p, key, cj)
	}
	return false, nil
}
