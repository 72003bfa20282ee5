package volumes

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/claim"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/internal/multimap"
	"github.com/jobd/jobd/store"
)

// Uses knows which pods use which claims, and which of them wait for one. It is what other controllers need to know of claims.
type Uses struct {
	loop.NoPods

	states  map[string]*claim.State        // of all claims, by their keys
	uses    map[string]podUses             // by the key of the pod
	byClaim multimap.Map[string, string]   // the keys of the pods that use a claim
	holders map[string]map[string]struct{} // the keys of the pods that keep a claim from going, see used

	dirtyClaims, dirtyPods *loop.Queue[string]
}

// NewUses returns what knows of no claim and no pod.
func NewUses() *Uses {
	return &Uses{
		states: map[string]*claim.State{}, uses: map[string]podUses{},
		byClaim: multimap.Map[string, string]{}, holders: map[string]map[string]struct{}{},
		dirtyClaims: loop.NewQueue[string](), dirtyPods: loop.NewQueue[string](),
	}
}

// Wait is a claim that a pod waits for.
type Wait struct {
	Claim string
	// Why says it in a scheduler's words; empty while the volume is being made.
	Why string
	// Volume is the volume if that is for another machine, User the pod that uses a claim which only one may use.
	Volume string
	User   types.UID
}

// podUses are the claims that a pod uses.
type podUses struct {
	uid             types.UID
	namespace, name string
	uses            []claim.Use
}

// PodKnown implements loop.PodFollower.
func (c *Uses) PodKnown(key string, p *corev1.Pod) {
	uses := claim.UsesOf(p)
	if len(uses) == 0 {
		return
	}
	c.uses[key] = podUses{p.UID, p.Namespace, p.Name, uses}
	for _, u := range uses {
		c.byClaim.Add(u.Key, key)
		c.dirtyClaims.Add(u.Key)
		if u.Own {
			c.dirtyPods.Add(key)
		}
	}
}

// PodEdited looks at the claims of a pod whose last scheduling gate may have been removed.
func (c *Uses) PodEdited(key string, _ *corev1.Pod) {
	for _, u := range c.uses[key].uses {
		c.dirtyClaims.Add(u.Key)
	}
}

// PodBound takes in that a pod uses its claims from now on.
func (c *Uses) PodBound(key string, p *corev1.Pod, _ time.Time) {
	for _, u := range c.uses[key].uses {
		if s := c.states[u.Key]; s != nil && s.OnePod {
			s.User = p.UID
			c.usersChanged(u.Key)
		}
	}
}

// PodEnded takes in that a pod uses its claims no longer.
func (c *Uses) PodEnded(key string) {
	pod := c.uses[key]
	for _, u := range pod.uses {
		if s := c.states[u.Key]; s != nil && s.OnePod && s.User == pod.uid {
			s.User = ""
			c.usersChanged(u.Key)
		}
	}
}

// PodForgotten implements loop.PodFollower.
func (c *Uses) PodForgotten(key string) {
	c.PodEnded(key)
	for _, u := range c.uses[key].uses {
		c.byClaim.Remove(u.Key, key)
	}
	delete(c.uses, key)
}

// Waits returns whether a pod has to wait for a claim, and why in a scheduler's words, if there are any.
func (c *Uses) Waits(key string) (why string, waits bool) {
	w, waits := c.WaitOf(key)
	return w.Why, waits
}

// WaitOf returns the claim that a pod waits for; false if it waits for none.
func (c *Uses) WaitOf(key string) (w Wait, waits bool) {
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
			w.User = s.User
		}
		return w, true
	}
	return w, false
}

// hasConsumer reports whether a pod uses a claim that could be scheduled.
func (c *Uses) hasConsumer(p *loop.Pass, key string) (bool, error) {
	for name := range c.byClaim[key] {
		obj, ok, err := p.Pods.Peek(name)
		if err != nil {
			return false, err
		}
		if ok && !podspec.Ended(obj) && obj.DeletionTimestamp == nil && len(obj.Spec.SchedulingGates) == 0 {
			return true, nil
		}
	}
	return false, nil
}

// used reports whether a pod uses a claim that is being deleted. Pods are looked for once; after that Gone takes in their end,
// and none is added, as none is bound to the node whose claim is being deleted.
func (c *Uses) used(p *loop.Pass, key string, obj *corev1.PersistentVolumeClaim) (bool, error) {
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
func (c *Uses) findHolders(p *loop.Pass, obj *corev1.PersistentVolumeClaim, pods map[string]struct{}) error {
	key := objects.Key(objects.Claims, obj)
	var failed error
	p.Snapshot().Range(objects.Pods+"/"+obj.Namespace+"/", "", func(o store.Object) bool {
		p.LookedAt(len(o.Value))
		some := &corev1.Pod{}
		if failed = scheme.DecodePart(o.Value, objects.PodVolumes, some); failed != nil {
			return false
		}
		uses := func(u claim.Use) bool { return u.Key == key }
		if !podspec.Bound(some) || !slices.ContainsFunc(claim.UsesOf(some), uses) {
			return true
		}
		now, ok, err := p.Pods.Peek(o.Key)
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
		if some, ok, err := p.Pods.Peek(name); err != nil {
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

// PodOver takes in that nothing is left on the host of a pod that is deleted, while its object still waits for something.
func (c *Uses) PodOver(key string, p *corev1.Pod) {
	for _, u := range claim.UsesOf(p) {
		if _, ok := c.holders[u.Key][key]; ok && !holds(p, u.Key) {
			delete(c.holders[u.Key], key)
			c.dirtyClaims.Add(u.Key)
		}
	}
}

// usersChanged has the pods looked at again that use a claim.
func (c *Uses) usersChanged(key string) {
	for pod := range c.byClaim[key] {
		c.dirtyPods.Add(pod)
	}
}
