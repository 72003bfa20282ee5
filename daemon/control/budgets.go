package control

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/jobd/jobd/api/disruption"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// budgets keeps the status of PodDisruptionBudgets, from which evictions take what they allow.
type budgets struct {
	loop.Base
	timers *loop.Timers
	// guarded are the namespaces with a budget. The pods of others are not looked at.
	guarded map[string]*guarded
	dirty   *loop.Queue[string]
}

// guarded is a namespace with at least one budget.
type guarded struct {
	selectors map[string]labels.Selector // of the budgets, by their keys
	pods      map[string]disruption.Pod  // all pods of the namespace, by their names
}

func newBudgets(timers *loop.Timers) *budgets {
	return &budgets{timers: timers, guarded: map[string]*guarded{}, dirty: loop.NewQueue[string]()}
}

// Rebuild implements loop.Controller.
func (c *budgets) Rebuild(s *store.Snapshot, _ time.Time) error {
	return objects.Each(s, objects.Budgets, func(key string, b *policyv1.PodDisruptionBudget) error {
		return c.set(s, key, b)
	})
}

// Fold takes in a budget that has changed.
func (c *budgets) Fold(p *loop.Pass, change loop.Change) error {
	if change.Resource != objects.Budgets || change.Deleted {
		return nil
	}
	b := &policyv1.PodDisruptionBudget{}
	if err := objects.Decode(change.Object, b); err != nil {
		return err
	}
	return c.set(p.Snapshot(), change.Object.Key, b)
}

// set takes in a budget as it now is.
func (c *budgets) set(s *store.Snapshot, key string, b *policyv1.PodDisruptionBudget) error {
	g := c.guarded[b.Namespace]
	if g == nil {
		g = &guarded{map[string]labels.Selector{}, map[string]disruption.Pod{}}
		if err := objects.Each(s, objects.Pods+"/"+b.Namespace, func(_ string, p *corev1.Pod) error {
			g.pods[p.Name] = disruption.PodOf(p)
			return nil
		}); err != nil {
			return err
		}
		c.guarded[b.Namespace] = g
	}
	g.selectors[key] = disruption.Selector(b)
	c.dirty.Add(key)
	return nil
}

// podSet takes in a pod as it now is, whoever has changed it.
func (c *budgets) podSet(p *corev1.Pod) {
	g := c.guarded[p.Namespace]
	if g == nil {
		return
	}
	before, known := g.pods[p.Name]
	now := disruption.PodOf(p)
	g.pods[p.Name] = now
	if known && now.Alike(before) {
		return // most changes of a pod are none for its budgets, which look at all their pods
	}
	c.touch(g, before.Labels, now.Labels)
}

// touch lets the budgets be looked at again that choose one of these labels.
func (c *budgets) touch(g *guarded, sets ...labels.Set) {
	for key, selector := range g.selectors {
		for _, set := range sets {
			if selector.Matches(set) {
				c.dirty.Add(key)
			}
		}
	}
}

// Gone takes in a pod or a budget that is gone, whoever has removed it: budgets go with their namespaces and their owners too.
func (c *budgets) Gone(_ *loop.Pass, o store.Object) {
	resource := objects.ResourceOf(o.Key)
	if len(c.guarded) == 0 || resource != objects.Pods && resource != objects.Budgets {
		return
	}
	namespace, name := objects.NameOf(o.Key)
	g := c.guarded[namespace]
	if g == nil {
		return
	}
	if resource == objects.Budgets {
		c.timers.Set(c, o.Key, time.Time{})
		if delete(g.selectors, o.Key); len(g.selectors) == 0 {
			delete(c.guarded, namespace)
		}
		return
	}
	was := g.pods[name]
	delete(g.pods, name)
	c.touch(g, was.Labels)
}

// Due implements loop.Controller.
func (c *budgets) Due(_ *loop.Pass, key string) error {
	c.dirty.Add(key)
	return nil
}

// Dirty implements loop.Controller.
func (c *budgets) Dirty() bool { return c.dirty.Len() > 0 }

// Settle implements loop.Controller.
func (c *budgets) Settle(p *loop.Pass) (bool, error) {
	return c.dirty.Settle(func(key string) error { return c.settle(p, key) })
}

// settle brings the status of a budget up to date.
func (c *budgets) settle(p *loop.Pass, key string) error {
	b := &policyv1.PodDisruptionBudget{}
	if !p.Works(key) {
		return nil
	}
	if ok, err := objects.Read(p, key, b); err != nil || !ok {
		return err
	}
	g := c.guarded[b.Namespace]
	if g == nil || g.selectors[key] == nil {
		return nil
	}
	chosen := map[string]disruption.Pod{}
	for name, pod := range g.pods {
		if g.selectors[key].Matches(pod.Labels) {
			chosen[name] = pod
		}
	}
	status := disruption.StatusOf(b, chosen, p.Now)
	c.timers.Set(c, key, status.Again)
	if !status.Changed {
		return nil
	}
	b.Status = status.PodDisruptionBudgetStatus
	if e := status.Event; e != nil {
		about := corev1.ObjectReference{
			Kind: "PodDisruptionBudget", APIVersion: policyv1.SchemeGroupVersion.String(), Namespace: b.Namespace, Name: b.Name, UID: b.UID,
		}
		if err := p.Event(about, events.Disruption, e.Type, e.Reason, e.Message); err != nil {
			return err
		}
	}
	return p.Put(key, b)
}
