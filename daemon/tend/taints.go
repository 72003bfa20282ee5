package tend

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/jobd/jobd/daemon/fit"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
)

// taintComponent is the source of events about evictions by taints, as in a cluster.
const taintComponent = "taint-eviction-controller"

// Taints ends the pods that do not tolerate a taint of the node (TaintEffectNoExecute).
type Taints struct {
	loop.Base
	loop.NoPods
	timers *loop.Timers
	pods   Pods

	// noExecute are the taints that evict pods, tainted the pods that they may evict.
	noExecute []corev1.Taint
	tainted   *loop.Queue[string]
}

// NewTaints makes the controller.
func NewTaints(timers *loop.Timers, pods Pods) *Taints {
	return &Taints{timers: timers, pods: pods, tainted: loop.NewQueue[string]()}
}

// SetTaints takes in the node's taints, which may evict pods that run.
func (t *Taints) SetTaints(all []corev1.Taint) {
	noExecute := slices.DeleteFunc(slices.Clone(all),
		func(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectNoExecute })
	if equality.Semantic.DeepEqual(noExecute, t.noExecute) {
		return
	}
	t.noExecute = noExecute
	for key := range t.pods.Keys() {
		t.tainted.Add(key)
	}
}

// enqueue lets a pod be checked, if there are such taints.
func (t *Taints) enqueue(key string) {
	if len(t.noExecute) > 0 {
		t.tainted.Add(key)
	}
}

// PodBound implements loop.PodFollower.
func (t *Taints) PodBound(key string, _ *corev1.Pod, _ time.Time) { t.enqueue(key) }

// PodEdited implements loop.PodFollower: the pod may tolerate more than before.
func (t *Taints) PodEdited(key string, _ *corev1.Pod) { t.enqueue(key) }

// PodForgotten implements loop.PodFollower.
func (t *Taints) PodForgotten(key string) { t.timers.Set(t, key, time.Time{}) }

// Due implements loop.Controller.
func (t *Taints) Due(_ *loop.Pass, key string) error {
	t.tainted.Add(key)
	return nil
}

// Dirty implements loop.Controller.
func (t *Taints) Dirty() bool { return t.tainted.Len() > 0 }

// Settle implements loop.Controller.
func (t *Taints) Settle(p *loop.Pass) (bool, error) {
	return t.tainted.Settle(func(key string) error { return t.evict(p, key) })
}

// evict ends a pod that no longer tolerates the node's taints.
func (t *Taints) evict(p *loop.Pass, key string) error {
	if !p.Works(key) {
		return nil
	}
	t.timers.Set(t, key, time.Time{})
	obj, ok, err := p.Pods.Get(key)
	if err != nil || !ok || !objects.Runs(obj) || obj.DeletionTimestamp != nil || !t.pods.Has(obj.UID) {
		return err
	}
	at, leaves := fit.Expelled(obj.Spec.Tolerations, t.noExecute, p.Now)
	switch {
	case !leaves:
		return nil
	case at.After(p.Now):
		t.timers.Set(t, key, at)
		return nil
	}
	if err := p.Event(objects.PodReference(obj), taintComponent, corev1.EventTypeNormal, "TaintManagerEviction",
		"Marking for deletion Pod "+obj.Namespace+"/"+obj.Name); err != nil {
		return err
	}
	return t.pods.Disrupt(p, key, obj, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
}
