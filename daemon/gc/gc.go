// Package gc collects dependents (ObjectMeta.OwnerReferences): those of owners that are gone, and those of owners that
// are being deleted with propagation Foreground or Orphan.
//
// Changes and ends of objects of any kind come in. What goes out are deletions, and objects with fewer owners or
// finalizers, written in the loop's passes through Objects.
package gc

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
)

// Objects reads and changes objects of any kind; for some kinds other controllers know more than what is stored.
type Objects interface {
	// Get returns an object as the pass has left it. It may be changed if Changed is called afterwards.
	Get(p *loop.Pass, key string) (objects.Object, bool, error)
	// Changed writes an object and takes in what follows from the change.
	Changed(p *loop.Pass, key string, obj objects.Object) error
	// Delete deletes an object by the rules of its kind, and reports whether it is gone.
	Delete(p *loop.Pass, key string) (bool, error)
	// Remove removes an object that nothing holds any more.
	Remove(p *loop.Pass, key string, obj objects.Object) error
}

// Jobs are the Jobs that count pods.
type Jobs interface {
	// Adopts reports whether a Job will adopt a pod that has no controller.
	Adopts(pod *corev1.Pod) bool
	// Drop lets a Job forget a pod that is no longer its own.
	Drop(job, pod types.UID)
}

// Notes are what is to be looked at. Other controllers add to them.
type Notes struct {
	collect   *loop.Queue[types.UID] // owners that are gone and may have left something behind
	abandoned *loop.Queue[string]    // objects whose owners may not be there
	deleting  *loop.Queue[string]    // objects that are being deleted
	// walks are the owners whose dependents take several passes, with the key at which the next pass continues.
	walks map[types.UID]string
	// waiting are the owners that are being deleted and wait for their dependents, by UID, with their keys.
	waiting map[types.UID]string
}

// NewNotes returns empty notes.
func NewNotes() *Notes {
	return &Notes{
		collect:   loop.NewQueue[types.UID](),
		abandoned: loop.NewQueue[string](),
		deleting:  loop.NewQueue[string](),
		walks:     map[types.UID]string{},
		waiting:   map[types.UID]string{},
	}
}

// Collector is the state that the controllers of garbage collection share.
type Collector struct {
	*Notes
	objects Objects
	jobs    Jobs
	// found holds the answers of exists for the length of one pass.
	found map[types.UID]bool
}

// New makes a collector, which knows nothing but its notes until its controllers are rebuilt.
func New(notes *Notes, objects Objects, jobs Jobs) *Collector {
	return &Collector{Notes: notes, objects: objects, jobs: jobs}
}

// Abandoned notes an object of which some owner may not exist.
func (n *Notes) Abandoned(key string) { n.abandoned.Add(key) }

// Deleting notes an object that is being deleted.
func (n *Notes) Deleting(key string) { n.deleting.Add(key) }

// NoteDeletion notes an object if it is being deleted and its dependents have to go first.
func (n *Notes) NoteDeletion(key string, obj metav1.Object) {
	if obj.GetDeletionTimestamp() != nil && storage.Propagation(obj) != metav1.DeletePropagationBackground {
		n.deleting.Add(key)
	}
}

// OwnerGone collects what an object has left behind.
func (n *Notes) OwnerGone(p *loop.Pass, uid types.UID) {
	delete(n.waiting, uid)
	delete(n.walks, uid)
	if owns(p, uid) {
		n.collect.Add(uid)
	}
}

// owns reports whether any object named this one as its owner when the pass began.
func owns(p *loop.Pass, uid types.UID) (any bool) {
	p.Snapshot().Owned(string(uid), "", "", func(string) bool {
		any = true
		return false
	})
	return any
}

// recheckOwner looks again at an owner that waits for its dependents, since one of them has changed or is gone.
func (c *Collector) recheckOwner(owner types.UID) {
	if key, ok := c.waiting[owner]; ok {
		c.deleting.Add(key)
	}
}

// walk visits the dependents of an owner in the order of their keys, as many as one pass should take on, and continues
// from there when it is called again. It reports whether it has reached the end.
func (c *Collector) walk(p *loop.Pass, owner types.UID, visit func(key string) error) (end bool, err error) {
	visited := 0
	end = true
	p.Snapshot().Owned(string(owner), "", c.walks[owner], func(key string) bool {
		if visited++; visited > loop.Budget/2 || visited > 1 && p.Spent() {
			c.walks[owner], end = key, false
			return false
		}
		err = visit(key)
		return err == nil
	})
	if end {
		delete(c.walks, owner)
	}
	return end, err
}
