package namespace

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// Deleter deletes objects of any kind by the rules of the kind.
type Deleter interface {
	// DeleteAlone deletes an object, whatever was to become of its dependents, and reports whether it is gone.
	DeleteAlone(p *loop.Pass, key string) (bool, error)
}

// Emptier is the controller that deletes the contents of a namespace that is being deleted, and then the namespace
// itself.
type Emptier struct {
	loop.Base
	timers  *loop.Timers
	deleter Deleter
	logs    Logs

	dirty       *loop.Queue[string] // namespaces that are being deleted
	terminating map[string]*progress
}

// Logs are what Jobs that are gone have left. The method may not block.
type Logs interface {
	// NamespaceGone reports that a namespace's object is gone.
	NamespaceGone(name string)
}

// NewEmptier makes the controller.
func NewEmptier(timers *loop.Timers, deleter Deleter, logs Logs) *Emptier {
	return &Emptier{
		timers: timers, deleter: deleter, logs: logs, dirty: loop.NewQueue[string](), terminating: map[string]*progress{},
	}
}

// progress is how far the deletion of a namespace has come.
type progress struct {
	resource int    // index in contents: everything of the resources before it has been deleted
	from     string // and so has everything of this one whose key is lower
	// show is when its conditions may next say what it waits for.
	show time.Time
}

// NamespaceKnown notes a namespace that is being deleted.
func (e *Emptier) NamespaceKnown(ns *corev1.Namespace) {
	if ns.DeletionTimestamp != nil {
		e.dirty.Add(ns.Name)
	}
}

// NamespaceChanged implements loop.NamespaceFollower.
func (e *Emptier) NamespaceChanged(_ *loop.Pass, ns *corev1.Namespace) error {
	e.NamespaceKnown(ns)
	return nil
}

// NamespaceGone implements loop.NamespaceFollower: another namespace of that name begins anew.
func (e *Emptier) NamespaceGone(p *loop.Pass, name string) error {
	delete(e.terminating, name)
	p.Figures.NamespaceGone(name)
	p.After(func() { e.logs.NamespaceGone(name) })
	return nil
}

// Gone looks again at a namespace that may have waited for this object. The next pass does that, since a transaction
// shows only what was there before it.
func (e *Emptier) Gone(p *loop.Pass, o store.Object) { e.goneFrom(p, o.Key) }

func (e *Emptier) goneFrom(p *loop.Pass, key string) {
	namespace, _ := objects.NameOf(key)
	if _, waits := e.terminating[namespace]; waits {
		e.timers.Set(e, namespace, p.Now)
	}
}

// Due implements loop.Controller.
func (e *Emptier) Due(_ *loop.Pass, namespace string) error {
	e.dirty.Add(namespace)
	return nil
}

// Dirty implements loop.Controller.
func (e *Emptier) Dirty() bool { return e.dirty.Len() > 0 }

// Settle implements loop.Controller.
func (e *Emptier) Settle(p *loop.Pass) (bool, error) {
	return e.dirty.Settle(func(name string) error { return e.empty(p, name) })
}

// empty deletes the contents of a namespace, and the namespace itself when nothing is left. When something that takes
// its time, such as a pod, is gone, the loop comes back here.
func (e *Emptier) empty(p *loop.Pass, name string) error {
	key := store.Key(objects.Namespaces, "", name)
	if !p.Works(key) {
		return nil
	}
	ns, ok, err := get(p, name)
	if err == nil && !ok {
		delete(e.terminating, name)
	}
	if err != nil || !ok || ns.DeletionTimestamp == nil {
		return err
	}
	end, is, err := e.ask(p, name)
	if err != nil || !end && is == empty {
		e.dirty.Add(name)
		return err
	}
	if end {
		if is, err = e.left(p, name, contents()...); err != nil {
			return err
		}
	}
	switch is {
	case occupied:
		return e.showRemains(p, key, ns)
	case emptied:
		return nil
	}
	delete(e.terminating, name)
	ns.Spec.Finalizers = slices.DeleteFunc(ns.Spec.Finalizers,
		func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
	if len(ns.Spec.Finalizers)+len(ns.Finalizers) > 0 {
		return p.Put(key, ns)
	}
	p.Delete(key)
	return nil
}

// ask deletes everything in a namespace, as much as one pass should take on, and continues from there when it is called
// again. It reports whether it has reached the end. If pods are left it goes no further, and returns so: until they are
// gone nothing is deleted that they may use (KEP-5080).
func (e *Emptier) ask(p *loop.Pass, name string) (end bool, pods state, err error) {
	at := e.terminating[name]
	if at == nil {
		at = &progress{}
		e.terminating[name] = at
	}
	asked := 0
	for ; at.resource < len(contents()); at.resource, at.from = at.resource+1, "" {
		if at.resource == len(podsAndOwners) && at.from == "" {
			if pods, err = e.left(p, name, objects.Pods); err != nil || pods != empty {
				return false, pods, err
			}
		}
		end = true
		p.Snapshot().Keys(store.Key(contents()[at.resource], name, ""), at.from, func(key string) bool {
			if asked++; asked > loop.Budget/2 || p.Spent() {
				at.from, end = key, false
				return false
			}
			_, err = e.deleter.DeleteAlone(p, key)
			return err == nil
		})
		if err != nil || !end {
			return false, empty, err
		}
	}
	return true, empty, nil
}

// state is what is in a namespace.
type state int

const (
	empty    state = iota
	emptied        // nothing any more, which a later pass sees: the loop comes back by itself
	occupied       // something that takes its time, whose end brings the loop back
)

// left returns whether anything of these resources is left in a namespace. Objects that were created after ask had passed them
// are deleted now. Those that come after an object that takes its time, such as a pod, are not: the end of that one brings the
// loop back here.
func (e *Emptier) left(p *loop.Pass, name string, resources ...string) (is state, err error) {
	for _, resource := range resources {
		p.Snapshot().Keys(store.Key(resource, name, ""), "", func(key string) bool {
			gone, failed := e.deleter.DeleteAlone(p, key)
			if err = failed; gone { // in this pass, now or earlier
				is = max(is, emptied)
				e.goneFrom(p, key)
			} else {
				is = occupied
			}
			return gone && err == nil
		})
		if err != nil {
			return is, err
		}
	}
	return is, nil
}

// podsAndOwners are deleted first: pods, and before them what would replace them.
var podsAndOwners = []string{objects.CronJobs, objects.Jobs, objects.Pods}

// contents returns the resources of which a namespace has to be emptied: podsAndOwners first, and what clients do not
// see last.
var contents = sync.OnceValue(func() []string {
	resources := slices.Clone(podsAndOwners)
	for resource, k := range objects.Served() {
		if k.Namespaced && !slices.Contains(podsAndOwners, resource) {
			resources = append(resources, resource)
		}
	}
	return append(resources, objects.Memories, objects.Schedules, objects.NoticeMemories)
})
