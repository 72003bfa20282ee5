package control

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// stored reports whether there is a Job with this UID, while the records are being rebuilt.
func (c *jobRecords) stored(uid types.UID) bool {
	_, ok := c.all[uid]
	return ok
}

// controlling returns the UID of the stored Job that controls a pod, while the records are being rebuilt: of the one in its namespace
// with the name and the UID that it says; empty if there is none.
func (c *jobRecords) controlling(p *corev1.Pod) types.UID {
	uid := objects.ControllingJob(p)
	if uid == "" || c.all[uid] != store.Key(objects.Jobs, p.Namespace, metav1.GetControllerOfNoCopy(p).Name) {
		return ""
	}
	return uid
}

// readPods calls fn for the stored pods for which something is left to be done. By then their Jobs have records.
func (c *jobRecords) readPods(s *store.Snapshot, now time.Time, fn func(key string, p *corev1.Pod) error) (err error) {
	s.Range(objects.Pods+"/", "", func(o store.Object) bool {
		if c.settled(o) {
			return true
		}
		p := &corev1.Pod{}
		if err = objects.Decode(o, p); err != nil {
			return false
		}
		owner := c.controlling(p)
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
func (c *jobRecords) settled(o store.Object) bool {
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

func (c *jobRecords) recordStored(s *store.Snapshot, key string, now time.Time) error {
	j := &batchv1.Job{}
	if ok, err := objects.Read(s, key, j); err != nil || !ok {
		return err
	}
	return c.record(s, s.Get, key, j, now)
}

// podsRead ends the rebuilding, when it is known which Jobs still have pods.
func (c *jobRecords) podsRead() {
	c.all = nil
	for uid, rec := range c.known {
		if rec.Finished() && rec.Empty() {
			c.drop(uid)
		} else {
			c.enqueue(uid)
		}
	}
}
