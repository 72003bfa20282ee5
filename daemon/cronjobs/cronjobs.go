// Package cronjobs is the concern of CronJobs in the control loop: it starts their Jobs, keeps count of them, and deletes those
// that are no longer kept.
//
// Changes of CronJobs come in, and of the Jobs that they control. Package cron decides. What goes out are Jobs, created through
// daemon/door and handed to the concern of Jobs, the status of CronJobs, and what is remembered of their schedules.
package cronjobs

import (
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/cron"
	"github.com/jobd/jobd/daemon/door"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/history"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// quotaRetry is how long a CronJob waits whose Job a ResourceQuota has refused.
const quotaRetry = 10 * time.Second

// CronJobs is the controller of CronJobs. What was set aside is kept under the name of this type (loop.Controller).
type CronJobs struct {
	loop.Base
	*loop.Children[*record]
	timers  *loop.Timers
	jobs    Jobs
	garbage Garbage
	doors   *door.Keeper

	known  map[types.UID]*record
	dirty  *loop.Queue[string] // CronJobs that something has happened to
	latest time.Time           // of the passes, by the clock on the wall
}

type record struct {
	*cron.Record
	key string
}

// Key implements loop.Parent.
func (r *record) Key() string { return r.key }

// Jobs changes Jobs on behalf of their CronJobs.
type Jobs interface {
	// Set folds in a Job as it now is.
	Set(p *loop.Pass, key string, j *batchv1.Job) error
	// Delete deletes a Job and its pods.
	Delete(p *loop.Pass, key string, uid types.UID) error
}

// Garbage collects what CronJobs leave behind.
type Garbage interface {
	// Deleting notes that an object is being deleted.
	Deleting(key string)
	// OwnerGone notes that the owner of other objects is gone.
	OwnerGone(p *loop.Pass, uid types.UID)
}

// New makes the controller.
func New(timers *loop.Timers, jobs Jobs, garbage Garbage, doors *door.Keeper) *CronJobs {
	known, dirty := map[types.UID]*record{}, loop.NewQueue[string]()
	return &CronJobs{
		Children: loop.NewChildren(objects.CronJobs, batch.CronJobOf, known, dirty),
		timers:   timers, jobs: jobs, garbage: garbage, doors: doors, known: known, dirty: dirty,
	}
}

// Rebuild makes the records of all CronJobs.
func (c *CronJobs) Rebuild(s *store.Snapshot, now time.Time) error {
	return objects.Each(s, objects.CronJobs, func(key string, cj *batchv1.CronJob) error {
		rec := c.recordOf(key, cj)
		if m, ok, err := readSchedule(s, cj); err != nil {
			return err
		} else if ok {
			rec.Recall(m, now)
		}
		c.enqueue(key, cj)
		return nil
	})
}

// recordOf returns the record of a CronJob, and makes it if there is none.
func (c *CronJobs) recordOf(key string, cj *batchv1.CronJob) *record {
	rec, ok := c.known[cj.UID]
	if !ok {
		rec = &record{cron.NewRecord(cj), key}
		c.known[cj.UID] = rec
	}
	return rec
}

// enqueue lets a CronJob be decided on in this pass or the next.
func (c *CronJobs) enqueue(key string, cj *batchv1.CronJob) {
	c.dirty.Add(key)
	if cj.DeletionTimestamp != nil {
		c.garbage.Deleting(key)
	}
}

// Fold takes in what clients do to CronJobs.
func (c *CronJobs) Fold(p *loop.Pass, change loop.Change) error {
	if change.Resource != objects.CronJobs {
		return nil
	}
	key := change.Object.Key
	if change.Deleted {
		c.gone(p, types.UID(change.Object.UID), key)
		return nil
	}
	cj, ok, err := p.CronJobs.Get(key)
	if err != nil || !ok || string(cj.UID) != change.Object.UID {
		return err
	}
	c.Set(p, key, cj)
	return nil
}

// ChangedAside implements loop.AsideFollower.
func (c *CronJobs) ChangedAside(p *loop.Pass, change loop.Change) error {
	if change.Resource != objects.CronJobs {
		return nil
	}
	cj, ok, err := p.CronJobs.Get(change.Object.Key)
	if ok && cj.DeletionTimestamp != nil {
		c.garbage.Deleting(change.Object.Key)
	}
	return err
}

// Set folds in a CronJob as it now is.
func (c *CronJobs) Set(p *loop.Pass, key string, cj *batchv1.CronJob) {
	c.recordOf(key, cj).SetCronJob(cj, p.Now)
	c.enqueue(key, cj)
}

// gone takes in the end of a CronJob: its Jobs are collected.
func (c *CronJobs) gone(p *loop.Pass, uid types.UID, key string) {
	delete(c.known, uid)
	c.timers.Set(c, key, time.Time{})
	history.ForgetCreator(p, key, uid)
	of, name := objects.NameOf(key)
	if o, ok := p.Get(store.Key(objects.Schedules, of, name)); ok && o.UID == string(uid) {
		p.Delete(o.Key)
	}
	c.garbage.OwnerGone(p, uid)
}

// Remove removes the object of a CronJob that nothing holds any more.
func (c *CronJobs) Remove(p *loop.Pass, key string, cj *batchv1.CronJob) error {
	if err := p.CronJobs.Delete(key); err != nil {
		return err
	}
	c.gone(p, cj.UID, key)
	return nil
}

// Due implements loop.Controller.
func (c *CronJobs) Due(_ *loop.Pass, key string) error {
	c.dirty.Add(key)
	return nil
}

// Dirty implements loop.Controller.
func (c *CronJobs) Dirty() bool { return c.dirty.Len() > 0 }

// Settle implements loop.Controller.
func (c *CronJobs) Settle(p *loop.Pass) (bool, error) {
	return c.dirty.Settle(func(key string) error { return c.settle(p, key) })
}

// Finish sees that the clock was set back since the last pass. A schedule that was changed meanwhile was not changed in the
// future.
func (c *CronJobs) Finish(p *loop.Pass) error {
	now := p.Now.Round(0)
	if now.Before(c.latest) {
		for _, rec := range c.known {
			rec.ClockSetBack(now)
			if _, saved := rec.Memory(); !saved {
				c.dirty.Add(rec.key)
			}
		}
	}
	c.latest = now
	return nil
}

// settle decides on a CronJob and carries the decision out: what it starts and its status are one transaction.
func (c *CronJobs) settle(p *loop.Pass, key string) error {
	if !p.Works(key) {
		return nil
	}
	cj, ok, err := p.CronJobs.Get(key)
	if err != nil || !ok {
		return err
	}
	rec, ok := c.known[cj.UID]
	if !ok {
		return nil
	}
	if err := putSchedule(p, cj, rec.Record); err != nil {
		return err
	}
	if cj.Annotations[batch.MissedAnnotation] == string(batch.MissedAll) {
		ns := &corev1.Namespace{}
		if _, err := objects.Read(p, store.Key(objects.Namespaces, "", cj.Namespace), ns); err != nil {
			return err
		}
		policy := ""
		if c, ok := core.NamespaceConcurrency(cj.Namespace, ns.Annotations); ok {
			policy = c.Policy
		}
		rec.SetNamespacePolicy(policy)
	}
	d := cron.Decide(cj, rec.Record, p.Now)
	c.timers.Set(c, key, d.Wake)
	rec.Told(d)
	for _, e := range d.Events {
		if err := event(p, cj, e); err != nil {
			return err
		}
	}
	for _, j := range d.Delete {
		if err := c.jobs.Delete(p, store.Key(objects.Jobs, cj.Namespace, j.Name), j.UID); err != nil {
			return err
		}
	}
	if d.Changed {
		cj.Status = d.Status
		p.CronJobs.Changed(key, cj)
	}
	if d.Start.IsZero() {
		return nil
	}
	return c.startJob(p, key, cj, rec, d)
}

// startJob creates the Job of a scheduled time, unless the namespace is being deleted.
func (c *CronJobs) startJob(p *loop.Pass, key string, cj *batchv1.CronJob, rec *record, d cron.Decision) error {
	in, refusal, err := c.doors.Open(p, cj.Namespace, door.Jobs)
	if err != nil || refusal != nil {
		return err
	}
	j, err := cron.NewJob(cj, d.Start)
	if err != nil {
		return event(p, cj, cron.CreationFailed(err))
	}
	jobKey := objects.Key(objects.Jobs, j)
	revision := ""
	if taken, ok, err := p.Jobs.Get(jobKey); err != nil {
		return err
	} else if ok && !metav1.IsControlledBy(taken, cj) {
		return event(p, cj, cron.CreationFailed(apierrors.NewAlreadyExists(batchv1.Resource("jobs"), j.Name)))
	} else if ok { // for the second time within a minute, or somebody was faster
		j = taken
	} else {
		j.UID, j.CreationTimestamp = uuid.NewUUID(), metav1.NewTime(p.Now)
		if refusal, err := in.Admit(j); err != nil {
			return err
		} else if refusal != nil {
			if door.OverQuota(refusal) {
				c.timers.Set(c, key, p.Now.Add(quotaRetry))
			}
			return event(p, cj, cron.CreationFailed(refusal))
		}
		p.Jobs.Changed(jobKey, j)
		if err := p.Jobs.Write(jobKey); err != nil { // a revision of its own, before its pods'
			return err
		}
		if user := history.Creator(p, key, cj.UID); user != "" {
			p.PutStored(store.Object{Key: storage.CreatorKey(jobKey), UID: string(j.UID), Value: []byte(user)})
		}
		revision = strconv.FormatUint(p.Version(), 10)
		if err := c.jobs.Set(p, jobKey, j); err != nil {
			return err
		}
		rec.Told(d)
		p.Figures.CronJobStarted(p.Now.Sub(d.Start.Add(d.Late)))
		if err := event(p, cj, cron.Created(j.Name)); err != nil {
			return err
		}
	}
	cron.Started(&cj.Status, j, revision, d.Start)
	p.CronJobs.Changed(key, cj)
	if d.More { // in a pass of its own, so that none has more to write for it
		c.timers.Set(c, key, p.Now)
	}
	return nil
}

func event(p *loop.Pass, cj *batchv1.CronJob, e cron.Event) error {
	return p.Event(objects.CronJobReference(cj), events.CronJobController, e.Type, e.Reason, e.Message)
}
