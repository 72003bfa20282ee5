package control

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/podsecurity"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/gang"
	"github.com/jobd/jobd/daemon/gc"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// jobs is the controller of Jobs. It has small records of the Jobs that still need decisions.
type jobs struct {
	loop.Base
	timers   *loop.Timers
	settings job.Settings
	security *podsecurity.Policy
	logs     Logs
	pods     *pods
	cronJobs *cronJobs
	gangs    *gang.Gangs
	accounts *accounts
	ttl      *jobTTL
	garbage  *gc.Collector
	aside    *aside.List

	known map[types.UID]*jobRecord
	byKey map[string]types.UID
	// selectors are the Jobs that choose their pods by labels of their own (JobSpec.ManualSelector).
	selectors map[types.UID]*jobRecord
	dirty     *loop.Queue[types.UID]
	// refusedByQuota are those that wait for a ResourceQuota.
	refusedByQuota waiting
	// all has the keys of all Jobs in the store, while the records are being rebuilt.
	all map[types.UID]string
}

type jobRecord struct {
	*job.Record
	key string
	// ahead puts the Job's waiting pods before others, see batch.PrioritizedAnnotation.
	ahead time.Time
}

func newJobs(timers *loop.Timers, settings job.Settings, logs Logs) *jobs {
	return &jobs{
		timers: timers, settings: settings, logs: logs,
		known: map[types.UID]*jobRecord{}, byKey: map[string]types.UID{}, selectors: map[types.UID]*jobRecord{},
		dirty: loop.NewQueue[types.UID](), refusedByQuota: waiting{},
	}
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
	known := c.known[j.UID] != nil
	if err := c.set(p, key, j); err != nil {
		return err
	}
	if change.Previous == nil && !job.Managed(j) {
		p.Figures.JobElsewhere(*j.Spec.ManagedBy)
	}
	if !known && !objects.Finished(j) && j.Spec.ManualSelector != nil && *j.Spec.ManualSelector {
		return c.showOrphans(p, j)
	}
	return nil
}

// concernOfJobs is how package loop calls the concern.
const concernOfJobs = "jobs"

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
	c.cronJobs.setJob(j)
}

// Due implements loop.Controller.
func (c *jobs) Due(_ *loop.Pass, key string) error {
	c.enqueue(c.byKey[key])
	return nil
}

// enqueue lets a Job be decided on in this pass or the next; an empty UID means none.
func (c *jobs) enqueue(uid types.UID) {
	if uid != "" {
		c.dirty.Add(uid)
	}
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
	begin := time.Now()
	settings := c.settings
	if p.Joined() {
		settings.Batch = loop.JoinedBudget
	}
	d := job.Decide(rec.Record, p.Now, settings)
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
		if _, err := c.pods.delete(p, store.Key(objects.Pods, j.Namespace, ref.Name), ref.UID); err != nil {
			return err
		}
	}
	for _, e := range d.Events {
		if err := jobEvent(p, j, e); err != nil {
			return err
		}
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
		c.accounts.jobEnded(p, j, &d.Status[len(d.Status)-1])
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
		return c.set(p, rec.key, j)
	}
	return nil
}

// set folds in a Job as it now is, and notes what is due for it.
func (c *jobs) set(p *loop.Pass, key string, j *batchv1.Job) error {
	if _, known := c.known[j.UID]; known || !objects.Finished(j) {
		if err := c.record(p.Snapshot(), key, j, p.Now); err != nil {
			return err
		}
		c.enqueue(j.UID)
	}
	c.note(key, j)
	c.cronJobs.jobChanged(j)
	return c.gangs.Resize(p, key, j)
}

// record makes sure that a Job has a record, and folds the Job in as it is. One that was set aside has none: its pods go on,
// and are counted when it has one again.
func (c *jobs) record(s *store.Snapshot, key string, j *batchv1.Job, now time.Time) error {
	if c.aside.Has(concernOfJobs, key) {
		return nil
	}
	ahead := batch.Prioritized(j.Annotations)
	if rec, ok := c.known[j.UID]; ok {
		rec.SetJob(j, now)
		if !rec.ahead.Equal(ahead) {
			rec.ahead = ahead
			c.pods.reorder(rec)
		}
		return nil
	}
	memory, err := readMemory(s, j)
	if err != nil {
		return err
	}
	rec := &jobRecord{Record: job.NewRecord(j, memory), key: key, ahead: ahead}
	c.known[j.UID], c.byKey[key] = rec, j.UID
	if j.Spec.ManualSelector != nil && *j.Spec.ManualSelector {
		c.selectors[j.UID] = rec
	}
	return nil
}

// note notes what is to come for a Job besides decisions.
func (c *jobs) note(key string, j *batchv1.Job) {
	c.ttl.note(key, j)
	if j.DeletionTimestamp != nil {
		c.garbage.Deleting(key)
	}
}

// forget drops the record of a Job that needs no more decisions. If a late pod needs the record, it is made again.
func (c *jobs) forget(uid types.UID) {
	if rec, ok := c.known[uid]; ok {
		c.timers.Set(c, rec.key, time.Time{})
		delete(c.byKey, rec.key)
	}
	delete(c.known, uid)
	delete(c.selectors, uid)
}

// delete deletes a Job and its pods.
func (c *jobs) delete(p *loop.Pass, key string, uid types.UID) error {
	j, ok, err := p.Jobs.Get(key)
	if err != nil || !ok || j.UID != uid || j.DeletionTimestamp != nil {
		return err
	}
	storage.SetPropagation(j, metav1.DeletePropagationBackground)
	if len(j.Finalizers) == 0 {
		return c.remove(p, key, j)
	}
	storage.MarkDeleted(j, p.Now, 0)
	p.Jobs.Changed(key, j)
	return c.set(p, key, j)
}

// remove removes the object of a Job that nothing holds any more.
func (c *jobs) remove(p *loop.Pass, key string, j *batchv1.Job) error {
	if err := p.Jobs.Delete(key); err != nil {
		return err
	}
	c.gone(p, j, key)
	return nil
}

// gone takes in the end of a Job: what it left behind is collected.
func (c *jobs) gone(p *loop.Pass, j *batchv1.Job, key string) {
	uid := j.UID
	c.accounts.jobGone(p, j)
	c.forget(uid)
	c.ttl.forget(key)
	c.cronJobs.forgetChild(uid)
	namespace, name := objects.NameOf(key)
	p.Delete(store.Key(objects.Memories, namespace, name))
	c.garbage.OwnerGone(p, uid)
	p.After(func() { c.logs.JobGone(uid) })
}

func jobEvent(p *loop.Pass, j *batchv1.Job, e job.Event) error {
	return p.Event(objects.JobReference(j), events.JobController, e.Type, e.Reason, e.Message)
}
