package volumes

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/claim"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/provision"
	"github.com/jobd/jobd/runtime/crash"
)

var noTime time.Time

// settleVolume decides what becomes of a volume.
func (c *Claims) settleVolume(p *loop.Pass, name string) error {
	key := volumeKey(name)
	pv, err := c.volume(p, name)
	if err != nil {
		return err
	}
	if pv == nil {
		c.forgetVolume(name)
		return nil
	}
	var owner *corev1.PersistentVolumeClaim
	if ref := pv.Spec.ClaimRef; ref != nil {
		ownerKey := claim.Key(ref.Namespace, ref.Name)
		if owner, err = c.claim(p, ownerKey); err != nil {
			return err
		}
		if owner != nil {
			c.dirtyClaims.Add(ownerKey) // it may be new to it, or larger
		}
	}
	fate := claim.FateOf(pv, owner)
	if pv.DeletionTimestamp != nil && fate.Phase != corev1.VolumeBound {
		if core.IsProvisioned(pv) && pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
			fate.Delete = true
		} else {
			c.noteVolume(pv)
			return c.removeVolume(p, pv)
		}
	}
	if fate.Delete {
		volume := provision.Volume{Name: name}
		if pv.Spec.ClaimRef != nil {
			volume.Owner = pv.Spec.ClaimRef.Namespace
		}
		c.do(p, provision.Delete, volume)
		if pv.Status.Phase == corev1.VolumeFailed { // until it has succeeded
			fate.Phase, fate.Message = corev1.VolumeFailed, pv.Status.Message
		}
	}
	if pv.Status.Phase != fate.Phase || pv.Status.Message != fate.Message {
		c.setPhase(p, pv, fate.Phase, fate.Message)
		if err := p.Put(key, pv); err != nil {
			return err
		}
	}
	c.noteVolume(pv)
	return c.say(p, key, volumeReference(pv), fate.Event)
}

func (c *Claims) forgetVolume(name string) {
	delete(c.free, name)
	delete(c.classOf, name)
	delete(c.said, volumeKey(name))
	delete(c.failures, name)
	c.timers.Set(c, volumeKey(name), noTime)
	c.worldChanged()
}

// removeVolume removes a PersistentVolume of which no data are left, or whose data are to be kept.
func (c *Claims) removeVolume(p *loop.Pass, pv *corev1.PersistentVolume) error {
	key := volumeKey(pv.Name)
	storage.MarkDeleted(pv, p.Now, 0)
	pv.Finalizers = slices.DeleteFunc(pv.Finalizers, func(f string) bool { return f == core.VolumeProtection })
	if err := p.Put(key, pv); err != nil {
		return err
	}
	if storage.Removable(pv) {
		p.Delete(key)
	}
	return nil
}

// deleted takes in that the data of a volume were deleted, or why not.
func (c *Claims) deleted(p *loop.Pass, r provision.Result) error {
	name := r.Volume.Name
	if made := c.creating[name]; made != nil {
		switch {
		case r.Err != nil && made.abandoned:
			c.timers.Set(c, made.Claim, c.failures.retry(name, p.Now))
		case made.abandoned:
			crash.At("claim.abandoned")
			c.dropCreation(p, name)
			delete(c.failures, name)
			c.dirtyClaims.Add(made.Claim)
		}
		return nil
	}
	pv, err := c.volume(p, name)
	if err != nil || pv == nil {
		return err
	}
	if r.Err == nil {
		crash.At("claim.deleted")
		return c.removeVolume(p, pv)
	}
	key := volumeKey(name)
	c.timers.Set(c, key, c.failures.retry(name, p.Now))
	c.setPhase(p, pv, corev1.VolumeFailed, r.Err.Error())
	if err := p.Put(key, pv); err != nil {
		return err
	}
	return c.say(p, key, volumeReference(pv), &claim.Event{
		Type: corev1.EventTypeWarning, Reason: claim.VolumeFailedDelete, Message: r.Err.Error(),
	})
}
