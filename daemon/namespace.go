package daemon

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/store"
)

// namespace gives the object of a namespace.
func (p *pass) namespace(name string) (ns *corev1.Namespace, ok bool, err error) {
	stored, ok := p.tx.Get(store.Key(namespaces, "", name))
	if !ok {
		return nil, false, nil
	}
	ns = newNamespace()
	return ns, true, decode(stored, ns)
}

// foldNamespace notes a namespace that is new, or that is being deleted: what is in it goes first.
func (p *pass) foldNamespace(c store.Change) error {
	if c.Deleted {
		return nil
	}
	ns := newNamespace()
	if err := decode(c.Object, ns); err != nil {
		return err
	}
	p.records.noteNamespace(ns)
	return nil
}

// goneFrom follows the end of any object: a namespace that waits for it is looked at again. That is for the next pass,
// since a transaction shows what was there before it.
func (p *pass) goneFrom(key string) {
	resource, rest, _ := strings.Cut(key, "/")
	p.records.gangGone(resource, key, rest)
	namespace, _, _ := strings.Cut(rest, "/")
	if _, waits := p.records.terminating[namespace]; waits {
		p.records.due.Set(timerKey{dueEmptying, namespace}, p.now)
	}
}

// emptyNamespace deletes what is in a namespace that is being deleted, and then the namespace. What takes its time, as
// pods do, brings the loop back here when it goes.
func (p *pass) emptyNamespace(name string) error {
	key := store.Key(namespaces, "", name)
	ns, ok, err := p.namespace(name)
	if err == nil && !ok {
		delete(p.records.terminating, name)
	}
	if err != nil || !ok || ns.DeletionTimestamp == nil {
		return err
	}
	if end, err := p.ask(name); err != nil || !end {
		p.records.emptying.add(name)
		return err
	}
	if left, err := p.left(name); err != nil {
		return err
	} else if left {
		return p.tellRemains(key, ns)
	}
	delete(p.records.terminating, name)
	if ns.Spec.Finalizers = withoutFinalizer(ns.Spec.Finalizers); len(ns.Spec.Finalizers)+len(ns.Finalizers) > 0 {
		return p.put(key, ns)
	}
	p.delete(key)
	return nil
}

// emptying is how far the deletion of a namespace has come.
type emptying struct {
	resource int    // of contents: what is of those before it has been asked to go
	from     string // and so have those of this one whose key is below
	// tell is when it may be told again what the namespace waits for.
	tell time.Time
}

// ask asks everything in a namespace to go, as much as one pass should take on, and goes on from there when it is called
// again. It tells whether it has come to the end.
func (p *pass) ask(name string) (end bool, err error) {
	at := p.records.terminating[name]
	if at == nil {
		at = &emptying{}
		p.records.terminating[name] = at
	}
	asked := 0
	for ; at.resource < len(contents()); at.resource, at.from = at.resource+1, "" {
		end = true
		p.tx.Keys(store.Key(contents()[at.resource], name, ""), at.from, func(key string) bool {
			if asked++; asked > budget/2 || p.spent() {
				at.from, end = key, false
				return false
			}
			_, err = p.deleteAny(key)
			return err == nil
		})
		if err != nil || !end {
			return false, err
		}
	}
	return true, nil
}

// left tells whether there was something in a namespace when the pass began. What has come after the others were asked
// is asked now, but for what comes after one that takes its time, as pods do: the end of that brings the loop back here.
func (p *pass) left(name string) (left bool, err error) {
	for _, resource := range contents() {
		p.tx.Keys(store.Key(resource, name, ""), "", func(key string) bool {
			left = true
			gone, failed := p.deleteAny(key)
			if err = failed; gone { // now, or earlier in this pass
				p.goneFrom(key)
			}
			return gone && err == nil
		})
		if err != nil {
			return left, err
		}
	}
	return left, nil
}

// contents are the resources that a namespace has to be emptied of: owners first, and what no client sees last.
var contents = sync.OnceValue(func() []string {
	resources := []string{cronJobs, jobs, pods}
	for resource, k := range served() {
		if k.Namespaced && !slices.Contains(resources[:3], resource) {
			resources = append(resources, resource)
		}
	}
	return append(resources, memories)
})

// deleteAny deletes an object of any resource and tells whether it is gone.
func (p *pass) deleteAny(key string) (bool, error) {
	resource, _, _ := strings.Cut(key, "/")
	switch resource {
	case cronJobs:
		cj, ok, err := p.cronJobs.Get(key)
		if err != nil || !ok {
			return err == nil, err
		}
		if len(cj.Finalizers) > 0 {
			if storage.MarkDeleted(cj, p.now, 0) {
				p.cronJobs.Changed(key, cj)
			}
			p.setCronJob(key, cj)
			return false, nil
		}
		return true, p.removeCronJob(key, cj)
	case jobs:
		j, ok, err := p.jobs.Get(key)
		if err != nil || !ok {
			return err == nil, err
		}
		if len(j.Finalizers) > 0 {
			if !storage.MarkDeleted(j, p.now, 0) {
				return false, nil
			}
			p.jobs.Changed(key, j)
			return false, p.setJob(key, j)
		}
		return true, p.removeJob(key, j)
	case pods:
		pod, ok, err := p.pods.Get(key)
		if err != nil || !ok {
			return err == nil, err
		}
		return p.deletePod(key, pod.UID)
	}
	if k := served()[resource]; k != nil {
		stored, ok := p.tx.Get(key)
		if !ok {
			return true, nil
		}
		obj, ok := k.New().(object)
		if !ok {
			return false, fmt.Errorf("%s: %T is no object", key, k.New())
		}
		if err := decode(stored, obj); err != nil {
			return false, err
		}
		if len(obj.GetFinalizers()) > 0 {
			if storage.MarkDeleted(obj, p.now, 0) {
				return false, p.put(key, obj)
			}
			return false, nil
		}
	}
	p.delete(key)
	return true, nil
}

func withoutFinalizer(finalizers []corev1.FinalizerName) (rest []corev1.FinalizerName) {
	for _, f := range finalizers {
		if f != corev1.FinalizerKubernetes {
			rest = append(rest, f)
		}
	}
	return rest
}
