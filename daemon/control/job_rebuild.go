package control

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// Rebuild makes the records of the Jobs that are not finished. One that is finished and has pods that are not done with
// gets its record from readPods. Most of what a start finds is done with, and is not decoded any further than that shows.
func (c *jobController) Rebuild(s *store.Snapshot, now time.Time) (err error) {
	c.all = map[types.UID]string{}
	s.Range(objects.Jobs+"/", "", func(o store.Object) bool {
		c.all[types.UID(o.UID)] = o.Key
		j := &batchv1.Job{}
		if err = scheme.DecodePart(o.Value, objects.JobEnd, j); err == nil && objects.Finished(j) && len(o.Owners) == 0 {
			c.note(o.Key, j)
			return true
		}
		j = &batchv1.Job{}
		if err = objects.Decode(o, j); err == nil {
			c.note(o.Key, j)
			c.cronJobs.setJob(j)
			err = c.record(s, o.Key, j, now)
		}
		return err == nil
	})
	return err
}

// stored reports whether there is a Job with a UID, while the records are being rebuilt.
func (c *jobController) stored(uid types.UID) bool {
	_, ok := c.all[uid]
	return ok
}

// readPods calls fn for the stored pods that something is left to be done for, whose Jobs have records then.
func (c *jobController) readPods(s *store.Snapshot, now time.Time, fn func(key string, p *corev1.Pod) error) (err error) {
	s.Range(objects.Pods+"/", "", func(o store.Object) bool {
		if c.settled(o) {
			return true
		}
		p := &corev1.Pod{}
		if err = objects.Decode(o, p); err != nil {
			return false
		}
		owner := objects.ControllingJob(p)
		if key, ok := c.all[owner]; ok && c.known[owner] == nil {
			err = c.recordStored(s, key, now)
		}
		if err == nil {
			err = fn(o.Key, p)
		}
		return err == nil
	})
	return err
}

// settled reports whether a stored pod is done with, and so are those who may have something to do with it.
func (c *jobController) settled(o store.Object) bool {
	p := &corev1.Pod{}
	if scheme.DecodePart(o.Value, objects.PodEnd, p) != nil || !objects.Done(p) {
		return false
	}
	for _, owner := range o.Owners {
		if !c.stored(types.UID(owner)) {
			return false
		}
	}
	return len(c.selectors) == 0 // else somebody may adopt it
}

func (c *jobController) recordStored(s *store.Snapshot, key string, now time.Time) error {
	j := &batchv1.Job{}
	if ok, err := objects.Read(s, key, j); err != nil || !ok {
		return err
	}
	return c.record(s, key, j, now)
}

// podsRead ends the rebuilding, once it is known which Jobs still have pods.
func (c *jobController) podsRead() {
	c.all = nil
	for uid, rec := range c.known {
		if rec.Finished() && rec.Empty() {
			c.forget(uid)
		} else {
			c.enqueue(uid)
		}
	}
}
