package control

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/quota"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/gc"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/daemon/worker"
	"github.com/jobd/jobd/store"
)

// pods is the controller of pods: it takes in what is observed of them, and decides what each of them needs next.
type pods struct {
	loop.Base
	timers    *loop.Timers
	workers   *worker.Pool
	logs      Logs
	jobs      *jobs
	admission *admission
	garbage   *gc.Collector
	accounts  *accounts
	budgets   *budgets
	followers []podFollower
	aside     *aside.List
	setAside  map[types.UID]bool // the pods that are in it

	// known are the pods that still wait, run or have to be counted.
	known map[types.UID]*podRecord
	// keeping are the pods that have ended and keep their files (core.KeepFilesAnnotation).
	keeping map[types.UID]keeper
	dirty   *loop.Queue[string]
}

type podRecord struct {
	key     string
	job     *jobRecord // the Job that knows of it; nil if there is none
	request *node.Pod
	issued  pod.Issued
	// renewal is when its tokens are to be looked at, see tokenRenewal; 0: never.
	renewal uint32
}

// podFollower is a concern that follows pods through their life on the node, whoever writes the changes. noPods
// implements what a follower does not need.
type podFollower interface {
	// podKnown is called when a pod is seen for the first time.
	podKnown(key string, p *corev1.Pod)
	// podEdited is called when a client has changed a pod.
	podEdited(key string, p *corev1.Pod)
	// podBound is called when a pod was bound to the node, or was found there at start.
	podBound(key string, p *corev1.Pod, now time.Time)
	// podRecovered is called for a pod that is known at start: something may have happened while the daemon was not
	// running.
	podRecovered(key string, p *corev1.Pod)
	// podForgotten is called when nothing is left to be done for a pod.
	podForgotten(key string)
}

// noPods is a podFollower that does nothing.
type noPods struct{}

func (noPods) podKnown(string, *corev1.Pod)            {}
func (noPods) podEdited(string, *corev1.Pod)           {}
func (noPods) podBound(string, *corev1.Pod, time.Time) {}
func (noPods) podRecovered(string, *corev1.Pod)        {}
func (noPods) podForgotten(string)                     {}

func newPods(timers *loop.Timers, workers *worker.Pool, logs Logs) *pods {
	return &pods{
		timers: timers, workers: workers, logs: logs,
		known: map[types.UID]*podRecord{}, keeping: map[types.UID]keeper{}, dirty: loop.NewQueue[string](),
	}
}

// Rebuild reads the pods for which something is left to be done.
func (c *pods) Rebuild(s *store.Snapshot, now time.Time) error {
	if err := c.jobs.readPods(s, now, func(key string, p *corev1.Pod) error {
		owner := objects.ControllingJob(p)
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
		for _, f := range c.followers {
			if objects.Runs(p) {
				f.podBound(key, p, now)
			}
			f.podRecovered(key, p)
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
	for _, f := range c.followers {
		f.podEdited(key, obj)
	}
	return c.touch(p, key, obj)
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
	ended := pod.Terminal(obj)
	resized := c.admission.resize(rec, obj, p.Now)
	observed := p.TakeObserved(obj.UID)
	result := pod.Apply(obj, &rec.issued, observed, p.Now)
	if err := c.accounts.observed(p, obj, observed); err != nil {
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
	if pod.Terminal(obj) && !pod.Done(obj) && len(actions) == 0 && !wake.IsZero() {
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
	if removed, err := c.removeIfOver(p, key, obj); err != nil || removed {
		return err
	}
	if !result.Changed {
		return nil
	}
	owner, err := c.jobs.of(p, obj)
	if err != nil {
		return err
	}
	c.set(key, obj, owner)
	c.jobs.enqueue(owner)
	return nil
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
			c.do(p, obj, pod.Action{Kind: pod.Measure})
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

// do hands actions to the workers of a pod once the pass is durable.
func (c *pods) do(p *loop.Pass, obj *corev1.Pod, actions ...pod.Action) {
	if len(actions) > 0 {
		if rec := c.known[obj.UID]; rec != nil {
			obj.UID = rec.request.UID // the string that is kept anyway, see share
		}
		allocated := pod.Allocated(obj)
		p.After(func() { c.workers.Do(allocated, actions) })
	}
}

// touch folds in a pod as it now is, and enqueues it and its Job.
func (c *pods) touch(p *loop.Pass, key string, obj *corev1.Pod) error {
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
	c.budgets.podSet(p)
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
		rec = &podRecord{key: key, job: of, request: requestOf(p, of)}
		c.known[p.UID] = rec
		for _, f := range c.followers {
			f.podKnown(key, p)
		}
	}
	c.admission.setPod(rec, p, known)
}

// share makes the name and the UID of a pod parts of one string with its key, and returns the key: many records keep them.
func share(key string, p *corev1.Pod) string {
	all := key + string(p.UID)
	key, p.UID = all[:len(key)], types.UID(all[len(key):])
	p.Name = key[len(key)-len(p.Name):]
	return key
}

// requestOf returns what admission needs of a pod of a Job, which may be nil.
func requestOf(p *corev1.Pod, of *jobRecord) *node.Pod {
	request := node.PodOf(pod.Allocated(p))
	if of != nil {
		request.Ahead = node.Ahead(of.ahead)
	}
	return request
}

// reorder puts the waiting pods of a Job where they now belong in the queue.
func (c *pods) reorder(of *jobRecord) {
	for uid, rec := range c.known {
		if rec.job == of {
			moved := *rec.request
			moved.Ahead = node.Ahead(of.ahead)
			rec.request = &moved
			c.admission.capacity.Reorder(uid, of.ahead)
		}
	}
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
	c.admission.gone(uid)
	c.timers.Set(c, key, time.Time{})
	for _, f := range c.followers {
		f.podForgotten(key)
	}
	delete(c.known, uid)
	delete(c.keeping, uid)
}

// get returns a pod that is known; nil if it is not.
func (c *pods) get(p *loop.Pass, uid types.UID) (string, *corev1.Pod, error) {
	rec, ok := c.known[uid]
	if !ok {
		return "", nil, nil
	}
	obj, ok, err := p.Pods.Get(rec.key)
	if err != nil || !ok || obj.UID != uid {
		return "", nil, err
	}
	obj.UID = rec.request.UID // the string that is kept anyway, see share
	return rec.key, obj, nil
}

// delete deletes a pod with the grace period of its spec, because its owner is being deleted or has decided so. It
// reports whether the pod is gone: a pod that has ended goes at once.
func (c *pods) delete(p *loop.Pass, key string, uid types.UID) (gone bool, err error) {
	obj, ok, err := p.Pods.Get(key)
	if err != nil || !ok || obj.UID != uid {
		return err == nil, err
	}
	if obj.DeletionTimestamp == nil {
		var grace int64
		if g := obj.Spec.TerminationGracePeriodSeconds; g != nil && !pod.Done(obj) && !pod.Terminal(obj) {
			grace = *g
		}
		storage.MarkDeleted(obj, p.Now, grace)
		p.Pods.Changed(key, obj)
	}
	if gone, err := c.removeIfOver(p, key, obj); err != nil || gone {
		return gone, err
	}
	return false, c.touch(p, key, obj)
}

// disrupt ends a pod for a reason other than its own failure, which a Job can recognise
// (PodFailurePolicyOnPodConditionsPattern).
func (c *pods) disrupt(p *loop.Pass, key string, obj *corev1.Pod, reason, message string) error {
	if pod.Terminal(obj) || obj.DeletionTimestamp != nil {
		return nil
	}
	setPodCondition(obj, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: message,
	}, p.Now)
	p.Pods.Changed(key, obj)
	_, err := c.delete(p, key, obj.UID)
	return err
}

// removeIfOver removes the object of a deleted pod once the pod has ended and nothing holds it. It reports whether it
// did so.
func (c *pods) removeIfOver(p *loop.Pass, key string, obj *corev1.Pod) (bool, error) {
	if obj.DeletionTimestamp == nil || !pod.Done(obj) {
		return false, nil
	}
	if storage.MarkDeleted(obj, p.Now, 0) {
		p.Pods.Changed(key, obj)
	}
	if !storage.Removable(obj) {
		c.admission.claims.podOver(key, obj)
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
		c.do(p, obj, pod.Action{Kind: pod.TearDown})
	}
	p.After(func() { c.logs.PodGone(obj) })
	return c.accounts.podGone(p, obj)
}
