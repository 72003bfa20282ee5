package control

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/limits"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/claim"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/store"
)

// podUses are the claims that a pod uses.
type podUses struct {
	uid             types.UID
	namespace, name string
	uses            []claim.Use
}

func (c *claims) podKnown(key string, p *corev1.Pod) {
	uses := claim.UsesOf(p)
	if len(uses) == 0 {
		return
	}
	c.uses[key] = podUses{p.UID, p.Namespace, p.Name, uses}
	for _, u := range uses {
		if c.byClaim[u.Key] == nil {
			c.byClaim[u.Key] = map[string]struct{}{}
		}
		c.byClaim[u.Key][key] = struct{}{}
		c.dirtyClaims.Add(u.Key)
		if u.Own {
			c.dirtyPods.Add(key)
		}
	}
}

// podEdited looks at the claims of a pod whose last scheduling gate may have been removed.
func (c *claims) podEdited(key string, _ *corev1.Pod) {
	for _, u := range c.uses[key].uses {
		c.dirtyClaims.Add(u.Key)
	}
}

// podBound takes in that a pod uses its claims from now on.
func (c *claims) podBound(key string, p *corev1.Pod, _ time.Time) {
	for _, u := range c.uses[key].uses {
		if s := c.states[u.Key]; s != nil && s.OnePod {
			s.User = p.UID
			c.usersChanged(u.Key)
		}
	}
}

// podEnded takes in that a pod uses its claims no longer.
func (c *claims) podEnded(key string) {
	pod := c.uses[key]
	for _, u := range pod.uses {
		if s := c.states[u.Key]; s != nil && s.OnePod && s.User == pod.uid {
			s.User = ""
			c.usersChanged(u.Key)
		}
	}
}

func (c *claims) podForgotten(key string) {
	c.podEnded(key)
	for _, u := range c.uses[key].uses {
		delete(c.byClaim[u.Key], key)
		if len(c.byClaim[u.Key]) == 0 {
			delete(c.byClaim, u.Key)
		}
	}
	delete(c.uses, key)
	delete(c.said, key)
	delete(c.refusals, key)
}

// waits returns whether a pod has to wait for a claim, and why in a scheduler's words, if there are any.
func (c *claims) waits(key string) (why string, waits bool) {
	w, waits := c.waitOf(key)
	return w.Why, waits
}

// waitsOn reports whether a pod still waits for a claim for the same reason, and has all claims that are its own. It need not
// be read then, which counts when it has very many claims.
func (c *claims) waitsOn(key string) bool {
	pod := c.uses[key]
	for _, u := range pod.uses {
		if u.Own && c.made[u.Key] != pod.uid {
			return false
		}
	}
	was, held := c.admission.held[pod.uid]
	why, waits := c.waits(key)
	return held && waits && why == was
}

// waitOf returns the claim that a pod waits for; false if it waits for none.
func (c *claims) waitOf(key string) (w ClaimWait, waits bool) {
	pod := c.uses[key]
	for _, u := range pod.uses {
		s := c.states[u.Key]
		if w.Why, waits = claim.Waits(pod.uid, pod.name, u, pod.namespace, s); !waits {
			continue
		}
		w.Claim = u.Name
		switch {
		case s == nil || !s.Bound:
		case s.Elsewhere:
			w.Volume = s.Volume
		case s.OnePod && s.User != "" && s.User != pod.uid:
			if user, ok := c.pods.known[s.User]; ok {
				w.User = user.key
			}
		}
		return w, true
	}
	return w, false
}

// hasConsumer reports whether a pod uses a claim that could be scheduled.
func (c *claims) hasConsumer(p *loop.Pass, key string) (bool, error) {
	for name := range c.byClaim[key] {
		obj, ok, err := p.Pods.Get(name)
		if err != nil {
			return false, err
		}
		if ok && !pod.Terminal(obj) && obj.DeletionTimestamp == nil && len(obj.Spec.SchedulingGates) == 0 {
			return true, nil
		}
	}
	return false, nil
}

// settlePod makes the claims that are a pod's own, and lets it be admitted once it waits for none.
func (c *claims) settlePod(p *loop.Pass, key string) error {
	if c.waitsOn(key) {
		return nil
	}
	obj, ok, err := p.Pods.Get(key)
	if err != nil || !ok {
		return err
	}
	rec, ok := c.pods.known[obj.UID]
	if !ok || pod.Terminal(obj) || obj.DeletionTimestamp != nil {
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
		if _, waits := c.waits(key); !waits {
			rec.issued.Retry()
			c.pods.dirty.Add(key)
		}
		return nil
	}
	c.admission.setPod(rec, obj, true)
	return nil
}

// makeOwn makes a claim from the template in a volume of a pod (EphemeralVolumeSource).
func (c *claims) makeOwn(p *loop.Pass, key string, obj *corev1.Pod, u claim.Use, of *corev1.Volume) error {
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
	scheme.Scheme.Default(made)
	core.PrepareClaim(made)
	ranges, err := storage.LimitRanges(p.Snapshot(), obj.Namespace)
	if err != nil {
		return err
	}
	refusal := limits.CheckClaim(ranges, made)
	if refusal != nil {
		refusal = fmt.Errorf("persistentvolumeclaims %q is forbidden: %w", u.Name, refusal)
	} else if refusal, err = quotaRefusal(p, objects.Claims, made); err != nil {
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
func (c *claims) sayOfOwn(p *loop.Pass, key string, obj *corev1.Pod, u claim.Use, message string) error {
	message = "ephemeral volume " + u.Volume + ": " + message
	if c.said[key] == message {
		return nil
	}
	c.said[key] = message
	return p.Event(objects.PodReference(obj), events.EphemeralVolumes, corev1.EventTypeWarning, claim.FailedBinding, message)
}

// used reports whether a pod uses a claim that is being deleted. Pods are looked for once; after that Gone takes in their end,
// and none is added, as none is bound to the node whose claim is being deleted.
func (c *claims) used(p *loop.Pass, key string, obj *corev1.PersistentVolumeClaim) (bool, error) {
	pods, ok := c.holders[key]
	if !ok {
		pods = map[string]struct{}{}
		if err := c.findHolders(p, obj, pods); err != nil {
			return false, err
		}
		c.holders[key] = pods
	}
	return len(pods) > 0, nil
}

// findHolders finds the pods that are bound to the node and use a claim, ended or not.
func (c *claims) findHolders(p *loop.Pass, obj *corev1.PersistentVolumeClaim, pods map[string]struct{}) error {
	key := objects.Key(objects.Claims, obj)
	var failed error
	p.Snapshot().Range(objects.Pods+"/"+obj.Namespace+"/", "", func(o store.Object) bool {
		some := &corev1.Pod{}
		if failed = scheme.DecodePart(o.Value, objects.PodVolumes, some); failed != nil {
			return false
		}
		uses := func(u claim.Use) bool { return u.Key == key }
		if !podspec.Bound(some) || !slices.ContainsFunc(claim.UsesOf(some), uses) {
			return true
		}
		now, ok, err := p.Pods.Get(o.Key)
		if err != nil {
			failed = err
			return false
		}
		if ok && string(now.UID) == o.UID && holds(now, key) {
			pods[o.Key] = struct{}{}
		}
		return true
	})
	if failed != nil {
		return failed
	}
	for name := range c.byClaim[key] { // some may have been bound in this pass
		if some, ok, err := p.Pods.Get(name); err != nil {
			return err
		} else if ok && podspec.Bound(some) && holds(some, key) {
			pods[name] = struct{}{}
		}
	}
	return nil
}

// holds reports whether a bound pod keeps a claim that it uses from going. A deleted pod of which nothing is left on the
// host does not keep the claims that were made for it: when it is deleted in the foreground, its object waits for them.
func holds(p *corev1.Pod, key string) bool {
	return p.DeletionTimestamp == nil || !pod.Done(p) || !slices.ContainsFunc(claim.UsesOf(p), func(u claim.Use) bool {
		return u.Key == key && u.Own
	})
}

// podOver takes in that nothing is left on the host of a pod that is deleted, while its object still waits for something.
func (c *claims) podOver(key string, p *corev1.Pod) {
	for _, u := range claim.UsesOf(p) {
		if _, ok := c.holders[u.Key][key]; ok && !holds(p, u.Key) {
			delete(c.holders[u.Key], key)
			c.dirtyClaims.Add(u.Key)
		}
	}
}
