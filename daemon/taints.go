package daemon

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/jobd/jobd/daemon/node"
)

const taintController = "taint-eviction-controller"

// setTaints takes in the node's taints. Pods that run may have to leave because of them.
func (r *records) setTaints(taints []corev1.Taint) {
	expelling := slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectNoExecute })
	if equality.Semantic.DeepEqual(expelling, r.expelling) {
		return
	}
	r.expelling = expelling
	for _, rec := range r.pods {
		r.tainted.add(rec.key)
	}
}

// watchTaints has a pod looked at that has come onto a node with such taints, or tolerates more than before.
func (r *records) watchTaints(key string) {
	if len(r.expelling) > 0 {
		r.tainted.add(key)
	}
}

// expel ends a pod that does not tolerate a taint of the node any longer.
func (p *pass) expel(key string) error {
	timer := timerKey{dueTaint, key}
	p.records.due.Set(timer, time.Time{})
	obj, ok, err := p.pods.Get(key)
	if err != nil || !ok || obj.Spec.NodeName == "" || obj.DeletionTimestamp != nil || p.records.pods[obj.UID] == nil {
		return err
	}
	at, leaves := node.Expelled(obj.Spec.Tolerations, p.records.expelling, p.now)
	switch {
	case !leaves:
		return nil
	case at.After(p.now):
		p.records.due.Set(timer, at)
		return nil
	}
	if err := p.event(podReference(obj), taintController, corev1.EventTypeNormal, "TaintManagerEviction",
		"Marking for deletion Pod "+obj.Namespace+"/"+obj.Name); err != nil {
		return err
	}
	return p.disrupt(key, obj, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
}
