package control

import (
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/gang"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime/oci"
	"github.com/jobd/jobd/store"
)

const (
	// unschedulableDelay is how long a pod waits before its condition and an event say why: most fit soon.
	unschedulableDelay = time.Second
	// explainedAtOnce bounds for how many pods that is written in a second.
	explainedAtOnce = 500

	// starvation is the key of the timer of those that have waited for too long; that of those that say why they wait is empty. Others are
	// those of pods, see heldByWindow.
	starvation = "starvation"

	preempting = "default-scheduler: preempting to accommodate a higher priority pod"
)

// admission binds pods to the node when they fit.
type admission struct {
	loop.Base
	*queue
	timers    *loop.Timers
	followers *loop.Followers
	ip        string // of the node
	pods      *podRecords
	changes   podChanges
	gangs     gangsOfPods
	sysctls   oci.Sysctls
	goesDown  *atomic.Bool // the machine goes down: no pod is bound
	occupied  func(bool)   // see Config.Occupied
	uses      DeviceUses   // may be nil
	// expected are critical ones among the arrivals, which wait for the end of the pods that make room.
	expected []types.UID
	// waits are the pods that wait for capacity and do not say why yet, in the order in which they came.
	waits []wait
	// wake is what the timer of starvation is set to.
	wake time.Time
}

// podChanges changes pods for which something was decided.
type podChanges interface {
	// Touch folds in a pod as it now is, and lets the pod and its Job be looked at.
	Touch(p *loop.Pass, key string, obj *corev1.Pod) error
	disrupter
}

// disrupter ends pods for reasons other than their own failure.
type disrupter interface {
	Disrupt(p *loop.Pass, key string, obj *corev1.Pod, reason, message string) error
}

// gangsOfPods shows of groups of pods that start together what becomes of their pods.
type gangsOfPods interface {
	// Show adds a condition to the group of a pod.
	Show(p *loop.Pass, obj *corev1.Pod, c metav1.Condition) error
}

// wait is a pod that will say why it waits, if it still waits at that time.
type wait struct {
	uid types.UID
	at  time.Time
}

func newAdmission(
	timers *loop.Timers, followers *loop.Followers, queue *queue, config *Config, goesDown *atomic.Bool,
	pods *podRecords, changes podChanges, gangs gangsOfPods,
) *admission {
	return &admission{
		timers: timers, followers: followers, queue: queue, ip: config.NodeIP, sysctls: config.Sysctls, goesDown: goesDown,
		occupied: config.Occupied, uses: config.DeviceUses, pods: pods, changes: changes, gangs: gangs,
	}
}

// considers says which pod the loop is at work on.
func (a *admission) considers(p *loop.Pass, uid types.UID) {
	if rec, ok := a.pods.known[uid]; ok {
		p.Works(rec.key)
	}
}

// Rebuild takes in which devices others use.
func (a *admission) Rebuild(*store.Snapshot, time.Time) error {
	if a.uses != nil {
		a.capacity.SetDevices(a.uses.Kinds())
	}
	return nil
}

// NamespaceKnown takes in the labels of a namespace, by which pods select each other (PodAffinityTerm.NamespaceSelector), and how the
// pods of its Jobs are preempted.
func (a *admission) NamespaceKnown(ns *corev1.Namespace) {
	a.preempts.set(ns.Name, ns.Annotations)
	a.capacity.SetNamespace(ns.Name, ns.Labels)
}

// NamespaceChanged implements loop.NamespaceFollower.
func (a *admission) NamespaceChanged(_ *loop.Pass, ns *corev1.Namespace) error {
	if a.preempts.set(ns.Name, ns.Annotations) {
		a.judgePausable(a.podsIn(ns.Name))
	}
	a.capacity.SetNamespace(ns.Name, ns.Labels)
	return nil
}

// NamespaceGone implements loop.NamespaceFollower.
func (a *admission) NamespaceGone(p *loop.Pass, name string) error {
	return a.NamespaceChanged(p, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// Dirty says that devices have come to be used by others, or are no more. Otherwise Settle needs no Dirty: what frees capacity or takes it
// comes in by a pass, which goes on until there is no step left, or until it is spent and another follows.
func (a *admission) Dirty() bool { return a.uses != nil && a.uses.Moved() }

// Settle carries out a step of admission, if there is one.
func (a *admission) Settle(p *loop.Pass) (bool, error) {
	if a.Dirty() {
		a.capacity.SetDevices(a.uses.Kinds())
	}
	if a.goesDown.Load() {
		return false, nil
	}
	a.capacity.At(p.Now)
	if a.capacity.Freed() {
		a.arrivals, a.expected = append(a.arrivals, a.expected...), nil
		if a.resizes.retry() {
			return true, nil
		}
	}
	if len(a.arrivals) > 0 {
		uid := a.arrivals[0]
		a.arrivals = a.arrivals[1:]
		a.considers(p, uid)
		return true, a.arrive(p, uid)
	}
	step, ok := a.capacity.Next(func(uid types.UID) { a.considers(p, uid) })
	p.Worked(a.capacity.TakeSteps())
	if !ok {
		a.awake()
		return false, nil
	}
	return true, a.admit(p, step)
}

// awake sets the timer for when the time alone may change who starts next.
func (a *admission) awake() {
	if wake := a.capacity.Wake(); !wake.Equal(a.wake) {
		a.wake = wake
		a.timers.Set(a, starvation, wake)
	}
}

// Due writes into pods that have waited for some time why they wait, and lets those be looked at whose window has opened.
func (a *admission) Due(p *loop.Pass, key string) error {
	switch key {
	case "":
		return a.explainWaits(p)
	case starvation: // Settle goes by the time
		a.wake = time.Time{}
	default:
		a.pods.dirty.Add(key)
	}
	return nil
}

// Finish notes the pods that have begun to wait.
func (a *admission) Finish(p *loop.Pass) error {
	a.noteWaits(p.Now)
	if a.occupied != nil {
		a.occupied(a.capacity.Running() > 0)
	}
	if a.uses != nil {
		a.uses.Wanted(a.capacity.WantsDevices())
	}
	p.Figures.PodsRunning, p.Figures.PodsWaiting = a.capacity.Running(), a.capacity.Waiting()+len(a.held)
	return nil
}

// admit carries out a step of admission.
func (a *admission) admit(p *loop.Pass, step node.Step) error {
	for _, uid := range step.Bind {
		if err := a.bind(p, uid); err != nil {
			return err
		}
	}
	for _, uid := range step.Continue {
		if err := a.goOn(p, uid); err != nil {
			return err
		}
	}
	for _, uid := range step.Nominate {
		if err := a.nominate(p, uid); err != nil {
			return err
		}
	}
	for _, uid := range step.Pause {
		if err := a.pause(p, uid, step.For); err != nil {
			return err
		}
	}
	for _, uid := range step.Victims {
		if err := a.preempt(p, uid, step.For); err != nil {
			return err
		}
	}
	return nil
}

// bind binds a pod to this node. The commit of that is the record of its start: every later step may be repeated.
func (a *admission) bind(p *loop.Pass, uid types.UID) error {
	key, obj, err := a.pods.get(p, uid)
	if err != nil || obj == nil {
		return err
	}
	if why, waits := a.claims.Waits(key); waits { // another pod took the claim in the same pass
		a.hold(uid, why)
		return nil
	}
	if a.heldByWindow(p, uid) {
		return nil
	}
	obj.Spec.NodeName = a.name
	if err := p.Event(objects.PodReference(obj), events.Scheduler, corev1.EventTypeNormal, "Scheduled",
		fmt.Sprintf("Successfully assigned %s/%s to %s", obj.Namespace, obj.Name, obj.Spec.NodeName)); err != nil {
		return err
	}
	if err := a.gangs.Show(p, obj, gang.Scheduled); err != nil {
		return err
	}
	return a.take(p, key, obj, a.refuses(obj))
}

// heldByWindow keeps a pod waiting that may not start now, though what is stored of its Job does not say so yet. It is looked at again
// when the window opens, whether or not its Job was decided on before.
func (a *admission) heldByWindow(p *loop.Pass, uid types.UID) bool {
	rec := a.pods.known[uid]
	if rec == nil || rec.job == nil {
		return false
	}
	why, opens := rec.job.OutsideWindow(p.Now)
	if why == "" {
		return false
	}
	a.hold(uid, why)
	rec.moved = true
	a.timers.Set(a, rec.key, opens)
	return true
}

// nominate records in a pod's status that other pods make way for it (PodStatus.NominatedNodeName).
func (a *admission) nominate(p *loop.Pass, uid types.UID) error {
	key, obj, err := a.pods.get(p, uid)
	if err != nil || obj == nil || podspec.Bound(obj) { // it goes on here, and nothing is to be kept of that
		return err
	}
	obj.Status.NominatedNodeName = a.name
	p.Pods.Changed(key, obj)
	return a.unschedulable(p, key, obj, a.capacity.MakesWay(uid))
}

// preempt ends a pod to make way for another one.
func (a *admission) preempt(p *loop.Pass, uid, other types.UID) error {
	key, obj, err := a.pods.get(p, uid)
	if err != nil || obj == nil {
		return err
	}
	if err := p.Event(objects.PodReference(obj), events.Scheduler, corev1.EventTypeNormal, "Preempted",
		fmt.Sprintf("Preempted by pod %s on node %s", other, a.name)); err != nil {
		return err
	}
	if a.capacity.Together(obj.UID) {
		if err := a.gangs.Show(p, obj, gang.Preempted(preempting)); err != nil {
			return err
		}
	}
	return a.changes.Disrupt(p, key, obj, corev1.PodReasonPreemptionByScheduler, preempting)
}

// noteWaits notes the pods that have begun to wait, or whose reason to wait may have changed.
func (a *admission) noteWaits(now time.Time) {
	changed := append(a.capacity.Changed(), a.news...)
	a.news = nil
	if len(changed) == 0 {
		return
	}
	if len(a.waits) == 0 {
		a.timers.Set(a, "", now.Add(unschedulableDelay))
	}
	for _, uid := range changed {
		a.waits = append(a.waits, wait{uid, now.Add(unschedulableDelay)})
	}
}

// explainWaits writes into pods that have waited for some time why they wait; if they are very many, little by little.
func (a *admission) explainWaits(p *loop.Pass) error {
	for explained := 0; len(a.waits) > 0 && explained < explainedAtOnce && !a.waits[0].at.After(p.Now); {
		if explained > 0 && p.Room() == 0 {
			break
		}
		uid := a.waits[0].uid
		a.waits = a.waits[1:]
		why := a.why(uid)
		if why == "" {
			continue
		}
		key, obj, err := a.pods.get(p, uid)
		if err != nil {
			return err
		}
		if obj == nil || podspec.Bound(obj) {
			continue
		}
		explained++
		if err := a.unschedulable(p, key, obj, why); err != nil {
			return err
		}
	}
	if len(a.waits) == 0 {
		a.waits = nil
		return nil
	}
	next := a.waits[0].at
	if !next.After(p.Now) {
		next = p.Now.Add(time.Second)
	}
	a.timers.Set(a, "", next)
	return nil
}

// unschedulable writes into a pod why it waits, if that is news.
func (a *admission) unschedulable(p *loop.Pass, key string, obj *corev1.Pod, why string) error {
	if !setPodCondition(obj, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: why,
	}, p.Now) {
		return nil
	}
	p.Pods.Changed(key, obj)
	if err := a.gangs.Show(p, obj, gang.Waits(why)); err != nil {
		return err
	}
	return p.Event(objects.PodReference(obj), events.Scheduler, corev1.EventTypeWarning, "FailedScheduling", why)
}
