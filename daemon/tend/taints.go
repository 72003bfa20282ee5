package control

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

// taints ends the pods that do not tolerate a taint of the node (TaintEffectNoExecute).
type taints struct {
	loop.Base
	loop.NoPods
	timers *loop.Timers
	pods   *podRecords
	ends   disrupter

	// noExecute are the taints that evict pods, tainted the pods that they may evict.
	noExecute []corev1.Taint
	tainted   *loop.Queue[string]
}

// disrupter ends pods for reasons other than their own failure.
type disrupter interface {
	disrupt(p *loop.Pass, key string, obj *corev1.Pod, reason, message string) error
}

func newTaints(timers *loop.Timers, pods *podRecords, ends disrupter) *taints {
	return &taints{timers: timers, pods: pods, ends: ends, tainted: loop.NewQueue[string]()}
}

// SetTaints takes in the node's taints, which may evict pods that run.
func (t *taints) SetTaints(all []corev1.Taint) {
	noExecute := slices.DeleteFunc(slices.Clone(all),
		func(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectNoExecute })
	if equality.Semantic.DeepEqual(noExecute, t.noExecute) {
		return
	}
	t.noExecute = noExecute
	for _, rec := range t.pods.known {
		t.tainted.Add(rec.key)
	}
}

// enqueue lets a pod be checked, if there are such taints.
func (t *taints) enqueue(key string) {
	if len(t.noExecute) > 0 {
		t.tainted.Add(key)
	}
}

func (t *taints) PodBound(key string, _ *corev1.Pod, _ time.Time) { t.enqueue(key) }
func (t *taints) PodEdited(key string, _ *corev1.Pod)             { t.enqueue(key) } // it may tolerate more than before
func (t *taints) PodForgotten(key string)                         { t.timers.Set(t, key, time.Time{}) }

// Due implements loop.Controller.
func (t *taints) Due(_ *loop.Pass, key string) error {
	t.tainted.Add(key)
	return nil
}

// Dirty implements loop.Controller.
func (t *taints) Dirty() bool { return t.tainted.Len() > 0 }

// Settle implements loop.Controller.
func (t *taints) Settle(p *loop.Pass) (bool, error) {
	return t.tainted.Settle(func(key string) error { return t.evict(p, key) })
}

// evict ends a pod that no longer tolerates the node's taints.
func (t *taints) evict(p *loop.Pass, key string) error {
	if !p.Works(key) {
		return nil
	}
	t.timers.Set(t, key, time.Time{})
	obj, ok, err := p.Pods.Get(key)
	if err != nil || !ok || !objects.Runs(obj) || obj.DeletionTimestamp != nil || t.pods.known[obj.UID] == nil {
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
	return t.ends.disrupt(p, key, obj, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
}
