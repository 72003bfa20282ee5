// Package upkeep keeps up to date what stands beside the lives of Jobs and pods: the node's object and its Lease, the status of
// disruption budgets, aggregated ClusterRoles, Secrets with tokens, what everybody has used of the machine; and it removes what has
// expired, Jobs among it.
//
// Each file is one loop.Controller, which knows nothing of the others. Changes of the store and times come in. What goes out
// are the objects that they write and delete in the loop's passes.
package upkeep

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

// Budgets keeps the status of PodDisruptionBudgets, from which evictions take what they allow.
type Budgets struct {
	loop.Base
	timers *loop.Timers
	// guarded are the namespaces with a budget. The pods of others are not looked at.
	guarded map[string]*guarded
	dirty   *loop.Queue[string]
}

// guarded is a namespace with at least one budget.
type guarded struct {
	budgets map[string]*budget        // by their keys
	pods    map[string]disruption.Pod // all pods of the namespace, by their names
}

// budget is what is known of one.
type budget struct {
	selector labels.Selector
	pods     disruption.Pods
}

// NewBudgets makes the controller.
func NewBudgets(timers *loop.Timers) *Budgets {
	return &Budgets{timers: timers, guarded: map[string]*guarded{}, dirty: loop.NewQueue[string]()}
}

// Rebuild implements loop.Controller.
func (c *Budgets) Rebuild(s *store.Snapshot, _ time.Time) error {
	return objects.Each(s, objects.Budgets, func(key string, b *policyv1.PodDisruptionBudget) error {
		return c.set(s, key, b)
	})
}

// Fold takes in a budget that has changed.
func (c *Budgets) Fold(p *loop.Pass, change loop.Change) error {
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
func (c *Budgets) set(s *store.Snapshot, key string, b *policyv1.PodDisruptionBudget) error {
	g := c.guarded[b.Namespace]
	if g == nil {
		g = &guarded{map[string]*budget{}, map[string]disruption.Pod{}}
		if err := objects.Each(s, objects.Pods+"/"+b.Namespace, func(_ string, p *corev1.Pod) error {
			g.pods[p.Name] = disruption.PodOf(p)
			return nil
		}); err != nil {
			return err
		}
		c.guarded[b.Namespace] = g
	}
	of := &budget{selector: disruption.Selector(b)}
	of.pods.Find = func(name string) (disruption.Pod, bool) {
		p, ok := g.pods[name]
		return p, ok && of.selector.Matches(p.Labels)
	}
	for _, p := range g.pods {
		if of.selector.Matches(p.Labels) {
			of.pods.Add(p)
		}
	}
	g.budgets[key] = of
	c.dirty.Add(key)
	return nil
}

// PodSet takes in a pod as it now is, whoever has changed it.
func (c *Budgets) PodSet(p *corev1.Pod) {
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
	if known {
		c.count(g, before, (*disruption.Pods).Remove)
	}
	c.count(g, now, (*disruption.Pods).Add)
}

// count counts a pod for the budgets that choose it, which are looked at again.
func (c *Budgets) count(g *guarded, p disruption.Pod, by func(*disruption.Pods, disruption.Pod)) {
	for key, b := range g.budgets {
		if b.selector.Matches(p.Labels) {
			by(&b.pods, p)
			c.dirty.Add(key)
		}
	}
}

// Gone takes in a pod or a budget that is gone, whoever has removed it: budgets go with their namespaces and their owners too.
func (c *Budgets) Gone(_ *loop.Pass, o store.Object) {
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
		if delete(g.budgets, o.Key); len(g.budgets) == 0 {
			delete(c.guarded, namespace)
		}
		return
	}
	if was, known := g.pods[name]; known {
		delete(g.pods, name)
		c.count(g, was, (*disruption.Pods).Remove)
	}
}

// Due implements loop.Controller.
func (c *Budgets) Due(_ *loop.Pass, key string) error {
	c.dirty.Add(key)
	return nil
}

// Dirty implements loop.Controller.
func (c *Budgets) Dirty() bool { return c.dirty.Len() > 0 }

// Settle implements loop.Controller.
func (c *Budgets) Settle(p *loop.Pass) (bool, error) {
	return c.dirty.Settle(func(key string) error { return c.settle(p, key) })
}

// settle brings the status of a budget up to date.
func (c *Budgets) settle(p *loop.Pass, key string) error {
	b := &policyv1.PodDisruptionBudget{}
	if !p.Works(key) {
		return nil
	}
	if ok, err := objects.Read(p, key, b); err != nil || !ok {
		return err
	}
	g := c.guarded[b.Namespace]
	if g == nil || g.budgets[key] == nil {
		return nil
	}
	status := disruption.StatusOf(b, &g.budgets[key].pods, p.Now)
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
