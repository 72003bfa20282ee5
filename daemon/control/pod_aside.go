package control

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/store"
)

// rebuildAside lets the Jobs of pods that were set aside know of them: otherwise they would make others.
func (c *pods) rebuildAside(s *store.Snapshot, now time.Time) error {
	aside, err := c.readAside(s)
	if err != nil {
		return err
	}
	c.setAside = make(map[types.UID]bool, len(aside))
	for _, p := range aside {
		c.setAside[p.UID] = true
		owner := c.jobs.controlling(p)
		if key, ok := c.jobs.all[owner]; ok && c.jobs.known[owner] == nil {
			if err := c.jobs.recordStored(s, key, now); err != nil {
				return err
			}
		}
		c.jobs.podChanged(c.jobs.known[owner], p)
		c.dirty.Add(objects.Key(objects.Pods, p)) // it may be deleted
	}
	return nil
}

// ChangedAside implements loop.AsideFollower.
func (c *pods) ChangedAside(_ *loop.Pass, change loop.Change) error {
	if change.Resource == objects.Pods {
		c.dirty.Add(change.Object.Key)
	}
	return nil
}

// settleAside ends a pod that was set aside and is deleted. Nothing is asked of the decisions about it, on one of which the
// loop has hung: the pod is ended as one that was deleted by force, and has failed for its Job.
func (c *pods) settleAside(p *loop.Pass, key string) error {
	obj, ok, err := p.Pods.Get(key)
	if err != nil || !ok || obj.DeletionTimestamp == nil {
		return err
	}
	if !pod.Done(obj) {
		pod.GiveUp(obj, p.Now)
		p.Pods.Changed(key, obj)
		c.do(p, obj, duty.Action{Kind: duty.TearDown})
	}
	if removed, err := c.RemoveIfOver(p, key, obj); err != nil || removed {
		return err
	}
	owner, err := c.jobs.of(p, obj)
	if err == nil {
		c.jobs.podChanged(c.jobs.known[owner], obj)
	}
	return err
}
