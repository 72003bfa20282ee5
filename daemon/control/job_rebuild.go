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

// Rebuild makes the records of the Jobs that are not finished. A finished Job whose pods are not all done with gets its
// record from readPods. Most of what is found at start is done with, and only as much of it is decoded as it takes to
// see that.
func (c *jobs) Rebuild(s *store.Snapshot, now time.Time) (err error) {
	c.all = map[types.UID]string{}
	s.Range(objects.Jobs+"/", "", func(o store.Object) bool {
		c.all[types.UID(o.UID)] = o.Key
		j := &batchv1.Job{}
		err = scheme.DecodePart(o.Value, objects.JobEnd, j)
		if err == nil && objects.Finished(j) && len(o.Owners) == 0 {
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
	for _, e := range c.aside.Entries() {
		j := &batchv1.Job{}
		if objects.ResourceOf(e.Key) != objects.Jobs || err != nil {
			continue
		}
		var ok bool
		if ok, err = objects.Read(s, e.Key, j); ok && err == nil {
			c.all[j.UID] = e.Key
			c.setAside(e.Key, j)
		}
	}
	return err
}

// stored reports whether there is a Job with this UID, while the records are being rebuilt.
func (c *jobs) stored(uid types.UID) bool {
	_, ok := c.all[uid]
	return ok
}

// readPods calls fn for the stored pods for which something is left to be done. By then their Jobs have records.
func (c *jobs) readPods(s *store.Snapshot, now time.Time, fn func(key string, p *corev1.Pod) error) (err error) {
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

// settled reports whether nothing is left to be done for a stored pod, nor for anything that depends on it.
func (c *jobs) settled(o store.Object) bool {
	p := &corev1.Pod{}
	if scheme.DecodePart(o.Value, objects.PodEnd, p) != nil || !objects.Done(p) {
		return false
	}
	for _, owner := range o.Owners {
		if !c.stored(types.UID(owner)) {
			return false
		}
	}
	return len(c.selectors) == 0 // otherwise some Job may adopt it
}

func (c *jobs) recordStored(s *store.Snapshot, key string, now time.Time) error {
	j := &batchv1.Job{}
	if ok, err := objects.Read(s, key, j); err != nil || !ok {
		return err
	}
	return c.record(s, key, j, now)
}

// podsRead ends the rebuilding, when it is known which Jobs still have pods.
func (c *jobs) podsRead() {
	c.all = nil
	for uid, rec := range c.known {
		if rec.Finished() && rec.Empty() {
			c.forget(uid)
		} else {
			c.enqueue(uid)
		}
	}
}
