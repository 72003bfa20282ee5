package volumes

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/claim"
	"github.com/jobd/jobd/daemon/door"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
)

// PodForgotten implements loop.PodFollower.
func (c *Claims) PodForgotten(key string) {
	c.Uses.PodForgotten(key)
	delete(c.said, key)
	delete(c.refusals, key)
}

// waitsOn reports whether a pod still waits for a claim for the same reason, and has all claims that are its own. It need not
// be read then, which counts when it has very many claims.
func (c *Claims) waitsOn(key string) bool {
	pod := c.uses[key]
	for _, u := range pod.uses {
		if u.Own && c.made[u.Key] != pod.uid {
			return false
		}
	}
	was, held := c.pods.Held(pod.uid)
	why, waits := c.Waits(key)
	return held && waits && why == was
}

// settlePod makes the claims that are a pod's own, and lets it be admitted once it waits for none.
func (c *Claims) settlePod(p *loop.Pass, key string) error {
	if c.waitsOn(key) {
		return nil
	}
	obj, ok, err := p.Pods.Get(key)
	if err != nil || !ok {
		return err
	}
	if !c.pods.Known(obj.UID) || podspec.Ended(obj) || obj.DeletionTimestamp != nil {
		return nil
	}
	volumes := map[string]*corev1.Volume{}
	for i := range obj.Spec.Volumes {
		volumes[obj.Spec.Volumes[i].Name] = &obj.Spec.Volumes[i]
	}
	for _, u := range c.uses[key].uses {
		if !u.Own || c.made[u.Key] == obj.UID { // not read again for each of the others
			continue
		}
		if p.Spent() { // they may be thousands
			c.dirtyPods.Add(key)
			return nil
		}
		if err := c.makeOwn(p, key, obj, u, volumes[u.Volume]); err != nil {
			return err
		}
	}
	if podspec.Bound(obj) { // it did not wait to be scheduled
		if _, waits := c.Waits(key); !waits {
			c.pods.Retry(obj.UID)
		}
		return nil
	}
	c.pods.Readmit(obj)
	return nil
}

// makeOwn makes a claim from the template in a volume of a pod (EphemeralVolumeSource).
func (c *Claims) makeOwn(p *loop.Pass, key string, obj *corev1.Pod, u claim.Use, of *corev1.Volume) error {
	made, err := c.claim(p, u.Key)
	if err != nil {
		return err
	}
	if made != nil {
		if metav1.IsControlledBy(made, obj) {
			c.made[u.Key] = obj.UID
			return nil
		}
		return c.sayOfOwn(p, key, obj, u, claim.NotOwner(obj.Namespace, u.Name, obj.Name))
	}
	template := of.Ephemeral.VolumeClaimTemplate
	made = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: obj.Namespace, Name: u.Name, UID: uuid.NewUUID(), CreationTimestamp: metav1.NewTime(p.Now),
		Labels: template.Labels, Annotations: template.Annotations,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(obj, corev1.SchemeGroupVersion.WithKind("Pod"))},
	}}
	made.Spec = *template.Spec.DeepCopy()
	in, refusal, err := c.doors.Open(p, obj.Namespace, door.Claims)
	if err == nil && refusal == nil {
		refusal, err = in.Admit(made)
	}
	if err != nil {
		return err
	}
	if refusal != nil {
		c.timers.Set(c, key, c.refusals.retry(key, p.Now))
		return c.sayOfOwn(p, key, obj, u, fmt.Sprintf("create PVC %s: %v", u.Name, refusal))
	}
	delete(c.refusals, key)
	c.dirtyClaims.Add(u.Key)
	c.made[u.Key] = obj.UID
	return p.Put(u.Key, made)
}

// sayOfOwn records an event about a claim that a pod should have, unless it was the last that was said.
func (c *Claims) sayOfOwn(p *loop.Pass, key string, obj *corev1.Pod, u claim.Use, message string) error {
	message = "ephemeral volume " + u.Volume + ": " + message
	if c.said[key] == message {
		return nil
	}
	c.said[key] = message
	return p.Event(objects.PodReference(obj), events.EphemeralVolumes, corev1.EventTypeWarning, claim.FailedBinding, message)
}
