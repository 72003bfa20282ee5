package daemon

import (
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// What the loop does to objects of any kind goes through here, since it knows more of some kinds than what is stored.

// any gives an object as the pass has left it, to be changed if changed is called then.
func (p *pass) any(key string) (obj object, ok bool, err error) {
	resource, _, _ := strings.Cut(key, "/")
	switch resource {
	case pods:
		return looked(p.pods, key)
	case jobs:
		return looked(p.jobs, key)
	case cronJobs:
		return looked(p.cronJobs, key)
	}
	k := served()[resource]
	if k == nil {
		return nil, false, nil
	}
	stored, ok := p.tx.Get(key)
	if !ok {
		return nil, false, nil
	}
	if obj, ok = k.New().(object); !ok {
		return nil, false, fmt.Errorf("%s: %T is no object", key, k.New())
	}
	return obj, true, decode(stored, obj)
}

func looked[T object](v *view[T], key string) (object, bool, error) {
	obj, ok, err := v.Get(key)
	if err != nil || !ok {
		return nil, false, err
	}
	return obj, true, nil
}

// changed writes an object and looks at what follows from the change.
func (p *pass) changed(key string, obj object) error {
	switch obj := obj.(type) {
	case *corev1.Pod:
		p.pods.Changed(key, obj)
		return p.touch(key, obj)
	case *batchv1.Job:
		p.jobs.Changed(key, obj)
		return p.setJob(key, obj)
	case *batchv1.CronJob:
		p.cronJobs.Changed(key, obj)
		p.setCronJob(key, obj)
		return nil
	}
	return p.put(key, obj)
}

// remove removes an object that nothing holds.
func (p *pass) remove(key string, obj object) error {
	switch obj := obj.(type) {
	case *corev1.Pod:
		_, err := p.removeIfOver(key, obj)
		return err
	case *batchv1.Job:
		return p.removeJob(key, obj)
	case *batchv1.CronJob:
		return p.removeCronJob(key, obj)
	}
	p.delete(key)
	return nil
}
