package loop

import (
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/store"
)

// Parent is the record of an object that controls Jobs.
type Parent interface {
	// Key returns the key of the object.
	Key() string
	// SetJob folds in a Job, and reports whether a decision is to be taken.
	SetJob(j *batchv1.Job) bool
	// DropJob forgets a Job.
	DropJob(uid types.UID)
}

// Children follow the Jobs that objects of one kind control: each Job is folded into the record of its parent, which is queued when there
// is something to decide. A controller of such objects embeds them, and with them is a JobFollower. NewChildren makes them.
type Children[P Parent] struct {
	resource string
	parentOf func(metav1.Object) (name string, uid types.UID)
	known    map[types.UID]P
	dirty    *Queue[string]
	parents  map[types.UID]types.UID // of a Job
}

// NewChildren returns an index that has no children yet. known are the records of their parents, which the controller adds and
// removes. parentOf returns the name and the UID of the parent that controls a Job; empty if that is of another kind.
func NewChildren[P Parent](
	resource string, parentOf func(metav1.Object) (string, types.UID), known map[types.UID]P, dirty *Queue[string],
) *Children[P] {
	return &Children[P]{resource: resource, parentOf: parentOf, known: known, dirty: dirty, parents: map[types.UID]types.UID{}}
}

// Len returns how many Jobs are known to belong to a parent.
func (c *Children[P]) Len() int { return len(c.parents) }

// Adopt folds a Job into a record, and reports whether a decision is to be taken. It does nothing if the Job is in another namespace.
func (c *Children[P]) Adopt(rec P, j *batchv1.Job) bool {
	name, owner := c.parentOf(j)
	if rec.Key() != store.Key(c.resource, j.Namespace, name) {
		return false
	}
	c.parents[j.UID] = owner
	return rec.SetJob(j)
}

// Disown forgets a Job of a parent that is forgotten.
func (c *Children[P]) Disown(job types.UID) { delete(c.parents, job) }

func (c *Children[P]) set(j *batchv1.Job) {
	_, owner := c.parentOf(j)
	if owner == "" {
		return
	}
	if rec, ok := c.known[owner]; ok && c.Adopt(rec, j) {
		c.dirty.Add(rec.Key())
	}
}

// drop takes in the end of a Job for the parent that controlled it.
func (c *Children[P]) drop(job types.UID) {
	owner, ok := c.parents[job]
	if !ok {
		return
	}
	delete(c.parents, job)
	if rec, ok := c.known[owner]; ok {
		rec.DropJob(job)
		c.dirty.Add(rec.Key())
	}
}

// JobRecovered implements JobFollower.
func (c *Children[P]) JobRecovered(_ string, j *batchv1.Job) { c.set(j) }

// JobSetAside implements JobFollower: a Job that was set aside counts as it was.
func (c *Children[P]) JobSetAside(j *batchv1.Job) { c.set(j) }

// JobGone implements JobFollower.
func (c *Children[P]) JobGone(_ *Pass, _ string, j *batchv1.Job) { c.drop(j.UID) }

// JobChanged folds a Job as it now is into the record of the parent that controls it, or did until now.
func (c *Children[P]) JobChanged(_ *Pass, _ string, j *batchv1.Job) error {
	if before, ok := c.parents[j.UID]; ok {
		if _, owner := c.parentOf(j); owner != before {
			c.drop(j.UID)
		}
	}
	c.set(j)
	return nil
}
