package control

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/quota"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/gc"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/store"
)

// pods is the controller of pods: it takes in what is observed of them, and decides what each of them needs next.
type pods struct {
	loop.Base
	*podRecords
	timers    *loop.Timers
	followers *loop.Followers
	jobs      *jobRecords
	queue     *queue
	garbage   *gc.Notes
	ledger    ledgerOfPods
	budgets   budgets
	logs      Logs
	setAside  map[types.UID]bool // the pods that are in the list of those that were

	// keeping are the pods that have ended and keep their files (core.KeepFilesAnnotation).
	keeping map[types.UID]keeper
}

// ledgerOfPods keeps what pods have used.
type ledgerOfPods interface {
	// Observed takes in what was observed of a pod, which the pod's status by now has too.
	Observed(p *loop.Pass, obj *corev1.Pod, observations []duty.Observation) error
	// PodGone takes in that the object of a pod is gone.
	PodGone(p *loop.Pass, obj *corev1.Pod) error
}

// budgets say how many pods may be disrupted.
type budgets interface {
	// PodSet takes in a pod as it now is, whoever has changed it.
	PodSet(p *corev1.Pod)
}

func newPods(
	timers *loop.Timers, followers *loop.Followers, records *podRecords, jobs *jobRecords, queue *queue, garbage *gc.Notes,
	ledger ledgerOfPods, budgets budgets, logs Logs,
) *pods {
	return &pods{
		timers: timers, followers: followers, podRecords: records, jobs: jobs, queue: queue, garbage: garbage,
		ledger: ledger, budgets: budgets, logs: logs, keeping: map[types.UID]keeper{},
	}
}

// Rebuild reads the pods for which something is left to be done.
func (c *pods) Rebuild(s *store.Snapshot, now time.Time) error {
	if err := c.jobs.readPods(s, now, func(key string, p *corev1.Pod) error {
		owner := c.jobs.controlling(p)
		if owner == "" && metav1.GetControllerOfNoCopy(p) == nil {
			if owner = c.jobs.adopting(p); owner == "" && slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer) {
				c.garbage.Abandoned(key)
			}
		}
		for _, ref := range p.OwnerReferences {
			if !c.jobs.stored(ref.UID) {
				c.garbage.Abandoned(key)
			}
		}
		c.set(key, p, owner)
		if c.known[p.UID] != nil {
			c.dirty.Add(key)
		}
		c.garbage.NoteDeletion(key, p)
		for _, f := range c.followers.Pods() {
			if objects.Runs(p) {
				f.PodBound(key, p, now)
			}
			f.PodRecovered(key, p)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := c.rebuildAside(s, now); err != nil {
		return err
	}
	c.jobs.podsRead()
	return nil
}

// Fold takes in what clients do to pods.
func (c *pods) Fold(p *loop.Pass, change loop.Change) error {
	if change.Resource != objects.Pods {
		return nil
	}
	key := change.Object.Key
	if change.Deleted {
		gone := &corev1.Pod{}
		if err := objects.Decode(change.Object, gone); err != nil {
			return err
		}
		return c.gone(p, gone, key)
	}
	obj, ok, err := p.Pods.Get(key)
	if err != nil || !ok || string(obj.UID) != change.Object.UID {
		return err
	}
	for _, f := range c.followers.Pods() {
		f.PodEdited(key, obj)
	}
	return c.Touch(p, key, obj)
}

// Due implements loop.Controller.
func (c *pods) Due(_ *loop.Pass, key string) error {
	c.dirty.Add(key)
	return nil
}

// Observed implements loop.Observer.
func (c *pods) Observed(uid types.UID) {
	if rec, ok := c.known[uid]; ok {
		c.dirty.Add(rec.key)
	}
}

// Observes implements loop.Observer.
func (c *pods) Observes(uid types.UID) bool { return c.known[uid] != nil }

// Awaits implements loop.Observer.
func (c *pods) Awaits(uid types.UID) bool { return c.setAside[uid] }

// Dirty implements loop.Controller.
func (c *pods) Dirty() bool { return c.dirty.Len() > 0 }

// Settle implements loop.Controller.
func (c *pods) Settle(p *loop.Pass) (bool, error) {
	return c.dirty.Settle(func(key string) error { return c.settle(p, key) })
}

// settle brings a pod's status up to date and finds out what the pod needs next.
func (c *pods) settle(p *loop.Pass, key string) error {
	if !p.Works(key) {
		return c.settleAside(p, key)
	}
	obj, ok, err := p.Pods.Get(key)
	if err != nil || !ok {
		return err
	}
	rec, ok := c.known[obj.UID]
	if !ok {
		return nil // nothing is left to be done for it
	}
	ended := podspec.Ended(obj)
	resized := c.queue.resizes.resize(rec, obj, p.Now)
	observed := p.TakeObserved(obj.UID)
	if pod.AwaitsSignal(obj) && rec.job != nil {
		rec.issued.JobEnds(rec.job.Deadline())
	}
	rec.issued.Pause(c.pauses(rec, obj))
	if rec.moved {
		rec.moved = false
		c.queue.setPod(rec, obj, true)
	}
	result := pod.Apply(obj, &rec.issued, observed, p.Now)
	if err := c.ledger.Observed(p, obj, observed); err != nil {
		return err
	}
	result.Changed = result.Changed || resized.Changed
	for _, e := range append(resized.Events, result.Events...) {
		about := objects.PodReference(obj)
		about.FieldPath = e.FieldPath
		if err := p.Event(about, events.Kubelet, e.Type, e.Reason, e.Message); err != nil {
			return err
		}
	}
	actions, wake := pod.Next(obj, &rec.issued, p.Now)
	rec.issued.Record(actions, p.Now)
	c.timers.Set(c, key, wake)
	if podspec.Ended(obj) && !pod.Done(obj) && len(actions) == 0 && !wake.IsZero() {
		if err := c.keepFiles(p, obj); err != nil {
			return err
		}
	}
	c.do(p, obj, actions...)
	if result.Changed {
		p.Pods.Changed(key, obj)
	}
	if !ended && slices.Contains(obj.Finalizers, batchv1.JobTrackingFinalizer) {
		p.Figures.FinalizerAdded(obj)
	}
	if removed, err := c.RemoveIfOver(p, key, obj); err != nil || removed {
		return err
	}
	if !result.Changed {
		return c.endUnpausable(p, key, obj)
	}
	owner, err := c.jobs.of(p, obj)
	if err != nil {
		return err
	}
	c.set(key, obj, owner)
	c.jobs.enqueue(owner)
	return c.endUnpausable(p, key, obj)
}

// pauses reports whether a pod is to be frozen: its Job is paused, or others have its CPU. What is frozen stays so when the Job is set
// aside.
func (c *pods) pauses(rec *podRecord, obj *corev1.Pod) bool {
	if _, displaced := core.DisplacedSince(obj); displaced {
		return true
	}
	if rec.job != nil || !pod.MayBePaused(obj) {
		return rec.job != nil && rec.job.Paused()
	}
	owner := metav1.GetControllerOfNoCopy(obj)
	return owner != nil && c.aside.Has(concernOfJobs, store.Key(objects.Jobs, obj.Namespace, owner.Name))
}

// maxFilesKept is how many pods that have ended may keep their files at a time, since each also holds an address.
const maxFilesKept = 64

// keeper is a pod that keeps its files.
type keeper struct {
	namespace string
	end       time.Time
}

// keepFiles notes that a pod keeps its files after its end. Where a ResourceQuota limits them, they are measured once: they do
// not change any more. If there are too many pods that keep theirs, the one that ended first does so no longer, of the namespace
// that has most of them: nobody makes others lose theirs.
func (c *pods) keepFiles(p *loop.Pass, obj *corev1.Pod) error {
	if _, known := c.keeping[obj.UID]; !known {
		quotas, err := p.Quotas(obj.Namespace)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(*quotas, func(q corev1.ResourceQuota) bool { return quota.LimitsFiles(&q) }) {
			c.do(p, obj, duty.Action{Kind: duty.Measure})
		}
	}
	c.keeping[obj.UID] = keeper{obj.Namespace, pod.FilesEnd(obj)}
	if len(c.keeping) > maxFilesKept {
		c.dropOldest()
	}
	return nil
}

// dropOldest lets one pod keep its files no longer.
func (c *pods) dropOldest() {
	count := map[string]int{}
	for _, k := range c.keeping {
		count[k.namespace]++
	}
	var first types.UID
	for uid, k := range c.keeping {
		was := c.keeping[first]
		if first == "" || count[k.namespace] > count[was.namespace] ||
			count[k.namespace] == count[was.namespace] && k.end.Before(was.end) {
			first = uid
		}
	}
	delete(c.keeping, first)
	if rec := c.known[first]; rec != nil {
		rec.issued.DropFiles()
		c.dirty.Add(rec.key)
	}
}

// Touch folds in a pod as it now is, and enqueues it and its Job.
func (c *pods) Touch(p *loop.Pass, key string, obj *corev1.Pod) error {
	owner, err := c.jobs.of(p, obj)
	if err != nil {
		return err
	}
	c.set(key, obj, owner)
	c.dirty.Add(key)
	c.jobs.enqueue(owner)
	return nil
}

// set folds in a pod as it now is, for itself and for the Job that counts it.
func (c *pods) set(key string, p *corev1.Pod, owner types.UID) {
	of := c.jobs.known[owner]
	if c.known[p.UID] == nil {
		key = share(key, p)
	}
	c.budgets.PodSet(p)
	c.jobs.podChanged(of, p)
	if rec, ok := c.known[p.UID]; ok && rec.job != of { // another Job controls it now
		c.jobs.podChanged(rec.job, p)
		rec.job = of
	}
	if objects.Done(p) {
		c.forget(key, p.UID)
		return
	}
	rec, known := c.known[p.UID]
	if !known {
		rec = &podRecord{key: key, job: of, request: c.queue.requestOf(p, of)}
		c.known[p.UID] = rec
		for _, f := range c.followers.Pods() {
			f.PodKnown(key, p)
		}
	}
	c.queue.setPod(rec, p, known)
}

// share makes the name and the UID of a pod parts of one string with its key, and returns the key: many records keep them.
func share(key string, p *corev1.Pod) string {
	all := key + string(p.UID)
	key, p.UID = all[:len(key)], types.UID(all[len(key):])
	p.Name = key[len(key)-len(p.Name):]
	return key
}

// drop forgets a pod that is no longer in the store.
func (c *pods) drop(key string, uid, owner types.UID) {
	of := c.jobs.known[owner]
	if rec, ok := c.known[uid]; ok && rec.job != nil {
		of = rec.job
	}
	if of != nil {
		of.DropPod(uid)
		c.jobs.enqueue(c.jobs.byKey[of.key])
	}
	c.forget(key, uid)
}

func (c *pods) forget(key string, uid types.UID) {
	c.queue.gone(uid)
	c.timers.Set(c, key, time.Time{})
	for _, f := range c.followers.Pods() {
		f.PodForgotten(key)
	}
	delete(c.known, uid)
	delete(c.keeping, uid)
}

// Delete deletes a pod with the grace period of its spec, because its owner is being deleted or has decided so. It
// reports whether the pod is gone: a pod that has ended goes at once.
func (c *pods) Delete(p *loop.Pass, key string, uid types.UID) (gone bool, err error) {
	obj, ok, err := p.Pods.Get(key)
	if err != nil || !ok || obj.UID != uid {
		return err == nil, err
	}
	if obj.DeletionTimestamp != nil {
		return c.ends(p, key, obj)
	}
	return c.end(p, key, obj, ptr.Deref(obj.Spec.TerminationGracePeriodSeconds, 0))
}

// DeleteForOthers does so with no more grace than a pod has that others wait for, also if its deletion has begun with more.
func (c *pods) DeleteForOthers(p *loop.Pass, key string, uid types.UID) (gone bool, err error) {
	obj, ok, err := p.Pods.Get(key)
	if err != nil || !ok || obj.UID != uid {
		return err == nil, err
	}
	return c.end(p, key, obj, pod.GraceForOthers(obj))
}

// end begins the deletion of a pod, or hastens it.
func (c *pods) end(p *loop.Pass, key string, obj *corev1.Pod, grace int64) (gone bool, err error) {
	over := pod.Done(obj) || podspec.Ended(obj)
	switch {
	case over && obj.DeletionTimestamp != nil:
		return c.ends(p, key, obj)
	case over:
		grace = 0
	case obj.DeletionTimestamp != nil:
		grace = max(1, grace) // without any it would be gone before its containers
	}
	if storage.MarkDeleted(obj, p.Now, grace) {
		p.Pods.Changed(key, obj)
	}
	return c.ends(p, key, obj)
}

// ends takes in that a pod is being deleted.
func (c *pods) ends(p *loop.Pass, key string, obj *corev1.Pod) (gone bool, err error) {
	if gone, err := c.RemoveIfOver(p, key, obj); err != nil || gone {
		return gone, err
	}
	return false, c.Touch(p, key, obj)
}

// Disrupt ends a pod for a reason other than its own failure, which a Job can recognise
// (PodFailurePolicyOnPodConditionsPattern).
func (c *pods) Disrupt(p *loop.Pass, key string, obj *corev1.Pod, reason, message string) error {
	if podspec.Ended(obj) || obj.DeletionTimestamp != nil && !pod.Lingers(obj) {
		return nil
	}
	var lead time.Duration
	if obj.DeletionTimestamp == nil {
		lead = core.SignalLead(obj, p.Now)
	}
	setPodCondition(obj, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: message,
	}, p.Now)
	p.Pods.Changed(key, obj)
	_, err := c.end(p, key, obj, pod.GraceForOthers(obj)+int64(lead/time.Second))
	return err
}

// RemoveIfOver removes the object of a deleted pod once the pod has ended and nothing holds it. It reports whether it
// did so.
func (c *pods) RemoveIfOver(p *loop.Pass, key string, obj *corev1.Pod) (bool, error) {
	if obj.DeletionTimestamp == nil || !pod.Done(obj) {
		return false, nil
	}
	if storage.MarkDeleted(obj, p.Now, 0) {
		p.Pods.Changed(key, obj)
	}
	if !storage.Removable(obj) {
		c.queue.claims.PodOver(key, obj)
		return false, nil
	}
	if err := p.Pods.Delete(key); err != nil {
		return false, err
	}
	return true, c.gone(p, obj, key)
}

// gone takes in the end of a pod's object: whatever the pod still has on this machine is removed.
func (c *pods) gone(p *loop.Pass, obj *corev1.Pod, key string) error {
	c.drop(key, obj.UID, objects.ControllingJob(obj))
	if !pod.Done(obj) { // it was deleted by force
		c.do(p, obj, duty.Action{Kind: duty.TearDown})
	}
	p.After(func() { c.logs.PodGone(obj) })
	return c.ledger.PodGone(p, obj)
}
