package daemon

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/pod"
)

const (
	// patience is how long a pod waits before it is said why: most find room soon.
	patience = time.Second
	// toldAtOnce is of how many pods that is said in a second.
	toldAtOnce = 500

	preempting = "default-scheduler: preempting to accommodate a higher priority pod"
)

// wait is a pod of which is to be said why it waits, if it still does by then.
type wait struct {
	uid types.UID
	at  time.Time
}

// admit carries out a step of admission.
func (p *pass) admit(step node.Step) error {
	for _, uid := range step.Bind {
		if err := p.bind(uid); err != nil {
			return err
		}
	}
	for _, uid := range step.Nominate {
		if err := p.nominate(uid); err != nil {
			return err
		}
	}
	for _, uid := range step.Victims {
		if err := p.preempt(uid, step.For); err != nil {
			return err
		}
	}
	return nil
}

// admitted gives a pod that admission has decided about.
func (p *pass) admitted(uid types.UID) (string, *corev1.Pod, error) {
	rec, ok := p.records.pods[uid]
	if !ok {
		return "", nil, nil
	}
	obj, ok, err := p.pods.Get(rec.key)
	if err != nil || !ok || obj.UID != uid {
		return "", nil, err
	}
	return rec.key, obj, nil
}

// bind puts a pod onto this node. That commit is the record of its start: what comes after it may be taken again.
func (p *pass) bind(uid types.UID) error {
	key, obj, err := p.admitted(uid)
	if err != nil || obj == nil {
		return err
	}
	obj.Spec.NodeName = p.host.Name
	obj.Status.NominatedNodeName = ""
	obj.Status.HostIP = p.host.IP
	obj.Status.HostIPs = []corev1.HostIP{{IP: p.host.IP}}
	p.setCondition(obj, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
	p.pods.Changed(key, obj)
	p.records.watchDisk(key, obj, p.now)
	p.records.watchTokens(key, obj, p.now)
	p.records.watchTaints(key)
	if err := p.event(podReference(obj), events.Scheduler, corev1.EventTypeNormal, "Scheduled",
		fmt.Sprintf("Successfully assigned %s/%s to %s", obj.Namespace, obj.Name, obj.Spec.NodeName)); err != nil {
		return err
	}
	if err := p.showGroup(obj, groupScheduled); err != nil {
		return err
	}
	return p.touch(key, obj)
}

// nominate notes on a pod that others make way for it.
func (p *pass) nominate(uid types.UID) error {
	key, obj, err := p.admitted(uid)
	if err != nil || obj == nil {
		return err
	}
	obj.Status.NominatedNodeName = p.host.Name
	p.pods.Changed(key, obj)
	return p.unschedulable(key, obj, p.records.node.MakesWay(uid))
}

// preempt has a pod make way for another one.
func (p *pass) preempt(uid, other types.UID) error {
	key, obj, err := p.admitted(uid)
	if err != nil || obj == nil {
		return err
	}
	if err := p.event(podReference(obj), events.Scheduler, corev1.EventTypeNormal, "Preempted",
		fmt.Sprintf("Preempted by pod %s on node %s", other, p.host.Name)); err != nil {
		return err
	}
	if p.records.node.Together(obj.UID) {
		if err := p.showGroup(obj, groupPreempted); err != nil {
			return err
		}
	}
	return p.disrupt(key, obj, corev1.PodReasonPreemptionByScheduler, preempting)
}

// disrupt ends a pod for a reason that is none of its own, which its Job may tell from a failure
// (PodFailurePolicyOnPodConditionsPattern).
func (p *pass) disrupt(key string, obj *corev1.Pod, reason, message string) error {
	if pod.Terminal(obj) || obj.DeletionTimestamp != nil {
		return nil
	}
	p.setCondition(obj, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: message})
	p.pods.Changed(key, obj)
	_, err := p.deletePod(key, obj.UID)
	return err
}

// noteWaits notes the pods that have come to wait, or that may do so for another reason than before.
func (r *records) noteWaits(now time.Time) {
	changed := r.node.Changed()
	if len(changed) == 0 {
		return
	}
	if len(r.waits) == 0 {
		r.due.Set(timerKey{what: dueWaits}, now.Add(patience))
	}
	for _, uid := range changed {
		r.waits = append(r.waits, wait{uid, now.Add(patience)})
	}
}

// tellWaits says of pods that have waited for some time why they do. Of very many that is said little by little.
func (p *pass) tellWaits() error {
	r := p.records
	for told := 0; len(r.waits) > 0 && told < toldAtOnce && !r.waits[0].at.After(p.now); {
		uid := r.waits[0].uid
		r.waits = r.waits[1:]
		why := r.node.Why(uid)
		if why == "" {
			continue
		}
		key, obj, err := p.admitted(uid)
		if err != nil {
			return err
		}
		if obj == nil || obj.Spec.NodeName != "" {
			continue
		}
		told++
		if err := p.unschedulable(key, obj, why); err != nil {
			return err
		}
	}
	if len(r.waits) == 0 {
		r.waits = nil
		return nil
	}
	next := r.waits[0].at
	if !next.After(p.now) {
		next = p.now.Add(time.Second)
	}
	r.due.Set(timerKey{what: dueWaits}, next)
	return nil
}

// unschedulable says why a pod waits, if that is news.
func (p *pass) unschedulable(key string, obj *corev1.Pod, why string) error {
	if !p.setCondition(obj, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: why,
	}) {
		return nil
	}
	p.pods.Changed(key, obj)
	if err := p.showGroup(obj, groupWaits(why)); err != nil {
		return err
	}
	return p.event(podReference(obj), events.Scheduler, corev1.EventTypeWarning, "FailedScheduling", why)
}

// setCondition sets a condition of a pod, and tells whether that is news.
func (p *pass) setCondition(obj *corev1.Pod, c corev1.PodCondition) bool {
	c.ObservedGeneration, c.LastTransitionTime = obj.Generation, metav1.NewTime(p.now)
	i := slices.IndexFunc(obj.Status.Conditions, func(old corev1.PodCondition) bool { return old.Type == c.Type })
	if i < 0 {
		obj.Status.Conditions = append(obj.Status.Conditions, c)
		return true
	}
	old := &obj.Status.Conditions[i]
	if old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message {
		return false
	}
	if old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	*old = c
	return true
}
