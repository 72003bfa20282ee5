package control

import (
	"fmt"
	"iter"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/door"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// jobs is the controller of Jobs.
type jobs struct {
	loop.Base
	*jobRecords
	timers    *loop.Timers
	followers *loop.Followers
	settings  job.Settings
	doors     *door.Keeper
	logs      Logs
	pods      podsOfJobs
	gangs     gangsOfJobs
	ledger    ledgerOfJobs
	gate      gateOfJobs

	// refusedByQuota are those that wait for a ResourceQuota.
	refusedByQuota waiting
}

// podsOfJobs changes pods on behalf of their Jobs.
type podsOfJobs interface {
	// set folds in a pod as it now is.
	set(key string, p *corev1.Pod, owner types.UID)
	// Touch does so too, and lets the pod and its Job be looked at.
	Touch(p *loop.Pass, key string, obj *corev1.Pod) error
	// Delete deletes a pod, and reports whether it is gone.
	Delete(p *loop.Pass, key string, uid types.UID) (gone bool, err error)
}

// gangsOfJobs are the pods that start together.
type gangsOfJobs interface {
	// Group returns the PodGroup of new pods of a Job, nil if there is none, or why it cannot be created.
	Group(p *loop.Pass, j *batchv1.Job, started bool) (pg *schedulingv1beta1.PodGroup, refusal, err error)
	// Shrink takes in how many pods a Job may have at once.
	Shrink(jobKey string, pods int)
}

// ledgerOfJobs keeps what Jobs have run and used.
type ledgerOfJobs interface {
	// JobEnded takes in that a Job is to have a status that says that it has ended.
	JobEnded(p *loop.Pass, j *batchv1.Job, status *batchv1.JobStatus)
	// JobElsewhere takes in a Job that another controller manages. unended says that it has not ended before this change.
	JobElsewhere(p *loop.Pass, j *batchv1.Job, unended bool)
}

// gateOfJobs knows which Jobs may not start yet.
type gateOfJobs interface {
	// Holds reports whether a Job is to wait.
	Holds(uid types.UID) bool
}

func newJobs(
	timers *loop.Timers, followers *loop.Followers, records *jobRecords, settings job.Settings, doors *door.Keeper,
	pods podsOfJobs, gangs gangsOfJobs, ledger ledgerOfJobs, gate gateOfJobs, logs Logs,
) *jobs {
	return &jobs{
		timers: timers, followers: followers, jobRecords: records, settings: settings, doors: doors,
		pods: pods, gangs: gangs, ledger: ledger, gate: gate, logs: logs, refusedByQuota: waiting{},
	}
}

// Rebuild makes the records of the Jobs that are not finished. A finished Job whose pods are not all done with gets its
// record from readPods. Most of what is found at start is done with, and only as much of it is decoded as it takes to
// see that.
func (c *jobs) Rebuild(s *store.Snapshot, now time.Time) (err error) {
	c.all = map[types.UID]string{}
	s.Range(objects.Jobs+"/", "", func(o store.Object) bool {
		c.all[types.UID(o.UID)] = o.Key
		j := &batchv1.Job{}
		err = scheme.DecodePart(o.Value, objects.JobEnd, j)
		if err == nil && objects.Finished(j) && len(o.Owners) == 0 {
			c.recovered(o.Key, j)
			return true
		}
		j = &batchv1.Job{}
		if err = objects.Decode(o, j); err == nil {
			c.recovered(o.Key, j)
			err = c.record(s, s.Get, o.Key, j, now)
		}
		return err == nil
	})
	for _, e := range c.aside.Entries() {
		j := &batchv1.Job{}
		if objects.ResourceOf(e.Key) != objects.Jobs || err != nil {
			continue
		}
		var ok bool
		if ok, err = objects.Read(s, e.Key, j); ok && err == nil {
			c.all[j.UID] = e.Key
			c.setAside(e.Key, j)
		}
	}
	return err
}

// Fold takes in what clients do to Jobs.
func (c *jobs) Fold(p *loop.Pass, change loop.Change) error {
	if change.Resource != objects.Jobs {
		return nil
	}
	key := change.Object.Key
	if change.Deleted {
		gone := &batchv1.Job{}
		if err := objects.Decode(change.Object, gone); err != nil {
			return err
		}
		c.gone(p, gone, key)
		return nil
	}
	j, ok, err := p.Jobs.Get(key)
	if err != nil || !ok || string(j.UID) != change.Object.UID {
		return err // it has changed again, is gone, or is another Job: that change is folded in too
	}
	rec := c.known[j.UID]
	known, new := rec != nil, change.Previous == nil
	unended := new || known && !rec.Finished()
	if err := c.Set(p, key, j); err != nil {
		return err
	}
	if !job.Managed(j) {
		if new {
			p.Figures.JobElsewhere(*j.Spec.ManagedBy)
		}
		c.ledger.JobElsewhere(p, j, unended)
	}
	if !known && !objects.Finished(j) && j.Spec.ManualSelector != nil && *j.Spec.ManualSelector {
		return c.showOrphans(p, j)
	}
	return nil
}

// ChangedAside implements loop.AsideFollower.
func (c *jobs) ChangedAside(p *loop.Pass, change loop.Change) error {
	if change.Resource != objects.Jobs {
		return nil
	}
	j, ok, err := p.Jobs.Get(change.Object.Key)
	if ok {
		c.setAside(change.Object.Key, j)
	}
	return err
}

// setAside takes in what goes on for a Job that was set aside: it may be deleted, and to its CronJob it counts as active.
func (c *jobs) setAside(key string, j *batchv1.Job) {
	if j.DeletionTimestamp != nil {
		c.garbage.Deleting(key)
	}
	for _, f := range c.followers.Jobs() {
		f.JobSetAside(j)
	}
}

// Due implements loop.Controller.
func (c *jobs) Due(_ *loop.Pass, key string) error {
	c.enqueue(c.byKey[key])
	return nil
}

// Dirty implements loop.Controller.
func (c *jobs) Dirty() bool { return c.dirty.Len() > 0 }

// Settle implements loop.Controller.
func (c *jobs) Settle(p *loop.Pass) (bool, error) {
	return c.dirty.Settle(func(uid types.UID) error { return c.settle(p, uid) })
}

// Finish implements loop.Finisher.
func (c *jobs) Finish(p *loop.Pass) error {
	p.Figures.UnfinishedJobs = len(c.known)
	return nil
}

// settle decides on a Job and carries the decision out.
func (c *jobs) settle(p *loop.Pass, uid types.UID) error {
	rec, ok := c.known[uid]
	if !ok || !p.Works(rec.key) {
		return nil
	}
	rec.Hold(c.gate.Holds(uid))
	begin := time.Now()
	d := c.decide(p, rec)
	c.timers.Set(c, rec.key, d.Wake)
	if err := c.carryOut(p, rec, d); err != nil {
		return fmt.Errorf("%s: %w", rec.key, err)
	}
	p.Figures.JobSynced(rec.Mode(), d, time.Since(begin))
	c.gangs.Shrink(rec.key, rec.AtOnce())
	if d.More {
		c.enqueue(uid)
	} else if rec.Finished() && rec.Empty() {
		c.forget(uid)
	}
	return nil
}

// decide decides on a Job. Where pods are large, fewer of them are created or changed at once than usual: what was decided is
// carried out as a whole.
func (c *jobs) decide(p *loop.Pass, rec *jobRecord) job.Decision {
	settings := c.settings
	if p.Joined() {
		settings.Batch = loop.JoinedBudget
	}
	for {
		d := job.Decide(rec.Record, p.Now, settings)
		pods := len(d.Adopt) + len(d.Orphan) + len(d.Create) + len(d.Release) + len(d.Delete)
		if pods <= 1 || settings.Batch == 1 {
			return d
		}
		if c.bytesOf(p, rec, d) <= p.Room() {
			return d
		}
		if settings.Batch <= 0 || settings.Batch > pods {
			settings.Batch = pods
		}
		settings.Batch /= 2
	}
}

// bytesOf returns how many bytes of pods a decision reads and writes.
func (c *jobs) bytesOf(p *loop.Pass, rec *jobRecord, d job.Decision) int {
	bytes := 0
	if len(d.Create) > 0 {
		bytes = len(d.Create) * p.Size(rec.key) // the template is most of a Job
	}
	namespace, _ := objects.NameOf(rec.key)
	add := func(ref job.Ref) { bytes += 2 * p.Size(store.Key(objects.Pods, namespace, ref.Name)) }
	for _, refs := range [][]job.Ref{d.Adopt, d.Orphan, d.Delete} {
		for _, ref := range refs {
			add(ref)
		}
	}
	for _, r := range d.Release {
		add(r.Ref)
	}
	return bytes
}

// carryOut does what was decided for a Job, in the order of the decision's fields, and folds the result in.
func (c *jobs) carryOut(p *loop.Pass, rec *jobRecord, d job.Decision) error {
	j, ok, err := p.Jobs.Get(rec.key)
	if err != nil || !ok {
		return err
	}
	for _, ref := range d.Adopt {
		if err := c.changePod(p, j, ref, func(pod *corev1.Pod) { job.Adopt(j, pod) }); err != nil {
			return err
		}
	}
	for _, ref := range d.Orphan {
		if err := c.changePod(p, j, ref, func(pod *corev1.Pod) { job.Orphan(j.UID, pod) }); err != nil {
			return err
		}
		rec.DropPod(ref.UID)
	}
	if refused, err := c.createPods(p, rec, j, d.Create); err != nil || refused {
		return err // the rest of the decision assumed all of them
	}
	p.Figures.JobDecided(j, d)
	for _, r := range d.Release {
		if err := c.changePod(p, j, r.Ref, func(pod *corev1.Pod) {
			if job.Untrack(pod) {
				p.Figures.FinalizerDeleted(pod)
			}
		}); err != nil {
			return err
		}
	}
	for _, ref := range d.Delete {
		if _, err := c.pods.Delete(p, store.Key(objects.Pods, j.Namespace, ref.Name), ref.UID); err != nil {
			return err
		}
	}
	for _, e := range d.Events {
		if err := jobEvent(p, j, e); err != nil {
			return err
		}
	}
	if d.PausedFor != nil {
		metav1.SetMetaDataAnnotation(&j.ObjectMeta, batch.PausedForAnnotation, d.PausedFor.String())
	}
	ends := len(d.Status) > 0 && batch.End(&d.Status[len(d.Status)-1]) != nil
	if d.Memory != nil {
		if err := putMemory(p, j, d.Memory); err != nil {
			return err
		}
	} else if ends {
		p.Delete(memoryKey(j))
	}
	if ends && batch.End(&j.Status) == nil {
		c.ledger.JobEnded(p, j, &d.Status[len(d.Status)-1])
	}
	for i, status := range d.Status {
		j.Status = status
		p.Jobs.Changed(rec.key, j)
		if i < len(d.Status)-1 {
			if err := p.Jobs.Write(rec.key); err != nil {
				return err
			}
		}
	}
	if len(d.Status) > 0 {
		return c.Set(p, rec.key, j)
	}
	return nil
}

// Set folds in a Job as it now is, and notes what is due for it.
func (c *jobs) Set(p *loop.Pass, key string, j *batchv1.Job) error {
	if _, known := c.known[j.UID]; known || !objects.Finished(j) {
		if err := c.record(p.Snapshot(), p.Get, key, j, p.Now); err != nil {
			return err
		}
		c.enqueue(j.UID)
	}
	if j.DeletionTimestamp != nil {
		c.garbage.Deleting(key)
	}
	for _, f := range c.followers.Jobs() {
		if err := f.JobChanged(p, key, j); err != nil {
			return err
		}
	}
	return nil
}

// recovered tells those that follow Jobs of one that was found at start.
func (c *jobs) recovered(key string, j *batchv1.Job) {
	for _, f := range c.followers.Jobs() {
		f.JobRecovered(key, j)
	}
	if j.DeletionTimestamp != nil {
		c.garbage.Deleting(key)
	}
}

// forget drops the record of a Job that needs no more decisions. If a late pod needs the record, it is made again.
func (c *jobs) forget(uid types.UID) {
	if rec, ok := c.known[uid]; ok {
		c.timers.Set(c, rec.key, time.Time{})
	}
	c.drop(uid)
}

// Reconsider lets a Job be decided on that was held back.
func (c *jobs) Reconsider(uid types.UID) { c.enqueue(uid) }

// Bound reports whether a pod of a Job is on the node. It looks at the pods of that Job alone.
func (c *jobs) Bound(uid types.UID) bool {
	rec, ok := c.known[uid]
	if !ok {
		return false
	}
	for pod := range c.queue.podsOf(rec) {
		if c.queue.capacity.Has(pod) {
			return true
		}
	}
	return false
}

// Begun yields the keys of the Jobs of a namespace that have begun and not finished.
func (c *jobs) Begun(namespace string) iter.Seq[string] {
	prefix := store.Key(objects.Jobs, namespace, "")
	return func(yield func(string) bool) {
		for _, rec := range c.known {
			if strings.HasPrefix(rec.key, prefix) && rec.Begun() && !yield(rec.key) {
				return
			}
		}
	}
}

// Delete deletes a Job and its pods.
func (c *jobs) Delete(p *loop.Pass, key string, uid types.UID) error {
	j, ok, err := p.Jobs.Get(key)
	if err != nil || !ok || j.UID != uid || j.DeletionTimestamp != nil {
		return err
	}
	storage.SetPropagation(j, metav1.DeletePropagationBackground)
	if len(j.Finalizers) == 0 {
		return c.Remove(p, key, j)
	}
	storage.MarkDeleted(j, p.Now, 0)
	p.Jobs.Changed(key, j)
	return c.Set(p, key, j)
}

// Remove removes the object of a Job that nothing holds any more.
func (c *jobs) Remove(p *loop.Pass, key string, j *batchv1.Job) error {
	if err := p.Jobs.Delete(key); err != nil {
		return err
	}
	c.gone(p, j, key)
	return nil
}

// gone takes in the end of a Job: what it left behind is collected.
func (c *jobs) gone(p *loop.Pass, j *batchv1.Job, key string) {
	uid := j.UID
	c.forget(uid)
	for _, f := range c.followers.Jobs() {
		f.JobGone(p, key, j)
	}
	namespace, name := objects.NameOf(key)
	p.Delete(store.Key(objects.Memories, namespace, name))
	c.garbage.OwnerGone(p, uid)
	p.After(func() { c.logs.JobGone(uid) })
}

func jobEvent(p *loop.Pass, j *batchv1.Job, e job.Event) error {
	return p.Event(objects.JobReference(j), events.JobController, e.Type, e.Reason, e.Message)
}
