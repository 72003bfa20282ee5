package daemon

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
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/cron"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/store"
)

// cronRecords is what the loop knows of CronJobs.
type cronRecords struct {
	known      map[types.UID]*cronRecord
	controller map[types.UID]types.UID // the CronJob of a Job
	dirty      *set[string]            // those that something has happened to
}

type cronRecord struct {
	*cron.Record
	key string
}

func newCronRecords() *cronRecords {
	return &cronRecords{
		known:      map[types.UID]*cronRecord{},
		controller: map[types.UID]types.UID{},
		dirty:      newSet[string](),
	}
}

// set makes sure that there is a record of a CronJob.
func (r *cronRecords) set(key string, cj *batchv1.CronJob) *cronRecord {
	rec, ok := r.known[cj.UID]
	if !ok {
		rec = &cronRecord{cron.NewRecord(cj), key}
		r.known[cj.UID] = rec
	}
	return rec
}

// setJob folds a Job in for the CronJob that controls it.
func (r *cronRecords) setJob(j *batchv1.Job) {
	owner := cron.Controller(j)
	if rec, ok := r.known[owner]; ok {
		r.controller[j.UID] = owner
		if rec.SetJob(j) {
			r.dirty.add(rec.key)
		}
	}
}

func (p *pass) foldCronJob(c store.Change) error {
	if c.Deleted {
		p.cronJobGone(types.UID(c.Object.UID), c.Object.Key)
		return nil
	}
	cj, ok, err := p.cronJobs.Get(c.Object.Key)
	if err != nil || !ok || string(cj.UID) != c.Object.UID {
		return err
	}
	p.setCronJob(c.Object.Key, cj)
	return nil
}

// setCronJob folds in a CronJob as it now is, and looks at what is due for it.
func (p *pass) setCronJob(key string, cj *batchv1.CronJob) {
	p.records.crons.set(key, cj).SetCronJob(cj, p.now)
	p.records.crons.dirty.add(key)
	if cj.DeletionTimestamp != nil {
		p.records.deleting.add(key)
	}
}

// cronJobGone follows the end of a CronJob: its Jobs are collected.
func (p *pass) cronJobGone(uid types.UID, key string) {
	delete(p.records.crons.known, uid)
	p.records.due.Set(timerKey{dueCronJob, key}, time.Time{})
	p.ownerGone(uid)
}

// tellCronJob tells the CronJob that controls a Job, or did until now, what has become of it.
func (p *pass) tellCronJob(j *batchv1.Job) {
	owner := cron.Controller(j)
	if before, ok := p.records.crons.controller[j.UID]; ok && before != owner {
		p.forgetChild(j.UID)
	}
	p.records.crons.setJob(j)
}

// forgetChild follows the end of a Job for the CronJob that controlled it.
func (p *pass) forgetChild(uid types.UID) {
	owner, ok := p.records.crons.controller[uid]
	if !ok {
		return
	}
	delete(p.records.crons.controller, uid)
	if rec, ok := p.records.crons.known[owner]; ok {
		rec.DropJob(uid)
		p.records.crons.dirty.add(rec.key)
	}
}

// settleCronJob decides for a CronJob and carries the decision out: what it starts and its status are one transaction.
func (p *pass) settleCronJob(key string) error {
	cj, ok, err := p.cronJobs.Get(key)
	if err != nil || !ok {
		return err
	}
	rec, ok := p.records.crons.known[cj.UID]
	if !ok {
		return nil
	}
	d := cron.Decide(cj, rec.Record, p.now)
	p.records.due.Set(timerKey{dueCronJob, key}, d.Wake)
	rec.Told(d)
	for _, e := range d.Events {
		if err := p.cronJobEvent(cj, e); err != nil {
			return err
		}
	}
	for _, j := range d.Delete {
		if err := p.deleteJob(store.Key(jobs, cj.Namespace, j.Name), j.UID, metav1.DeletePropagationBackground); err != nil {
			return err
		}
	}
	if d.Changed {
		cj.Status = d.Status
		p.cronJobs.Changed(key, cj)
	}
	if d.Start.IsZero() {
		return nil
	}
	return p.startJob(key, cj, rec, d)
}

// startJob makes the Job of a scheduled time, unless the namespace takes no more.
func (p *pass) startJob(key string, cj *batchv1.CronJob, rec *cronRecord, d cron.Decision) error {
	if refusal, err := p.refusal(cj.Namespace); err != nil || refusal != nil {
		return err
	}
	j, err := cron.NewJob(cj, d.Start)
	if err != nil {
		return p.cronJobEvent(cj, cron.CreationFailed(err))
	}
	jobKey := keyOf(jobs, j)
	revision := ""
	if taken, ok, err := p.jobs.Get(jobKey); err != nil {
		return err
	} else if ok && !metav1.IsControlledBy(taken, cj) {
		return p.cronJobEvent(cj, cron.CreationFailed(apierrors.NewAlreadyExists(batchv1.Resource("jobs"), j.Name)))
	} else if ok { // a second time within a minute, or somebody was faster
		j = taken
	} else {
		j.UID, j.CreationTimestamp = uuid.NewUUID(), metav1.NewTime(p.now)
		batch.SetJobDefaults(j)
		batch.PrepareJob(j)
		if errs := batch.ValidateJob(j); len(errs) > 0 {
			return p.cronJobEvent(cj, cron.CreationFailed(apierrors.NewInvalid(batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), j.Name, errs)))
		}
		p.jobs.Changed(jobKey, j)
		if err := p.jobs.Write(jobKey); err != nil { // a revision of its own, before its pods'
			return err
		}
		revision = strconv.FormatUint(p.version, 10)
		if err := p.setJob(jobKey, j); err != nil {
			return err
		}
		rec.Told(d)
		p.figures.skews = append(p.figures.skews, p.now.Sub(d.Start))
		if err := p.cronJobEvent(cj, cron.Created(j.Name)); err != nil {
			return err
		}
	}
	cron.Started(&cj.Status, j, revision, d.Start)
	p.cronJobs.Changed(key, cj)
	return nil
}

// deleteJob deletes a Job with its pods.
func (p *pass) deleteJob(key string, uid types.UID, policy metav1.DeletionPropagation) error {
	j, ok, err := p.jobs.Get(key)
	if err != nil || !ok || j.UID != uid || j.DeletionTimestamp != nil {
		return err
	}
	storage.SetPropagation(j, policy)
	if len(j.Finalizers) == 0 {
		return p.removeJob(key, j)
	}
	storage.MarkDeleted(j, p.now, 0)
	p.jobs.Changed(key, j)
	return p.setJob(key, j)
}

func (p *pass) removeCronJob(key string, cj *batchv1.CronJob) error {
	if err := p.cronJobs.Delete(key); err != nil {
		return err
	}
	p.cronJobGone(cj.UID, key)
	return nil
}

func (p *pass) cronJobEvent(cj *batchv1.CronJob, e cron.Event) error {
	return p.event(corev1.ObjectReference{
		Kind: "CronJob", APIVersion: batchv1.SchemeGroupVersion.String(),
		Namespace: cj.Namespace, Name: cj.Name, UID: cj.UID,
	}, events.CronJobController, e.Type, e.Reason, e.Message)
}

// readCronJobs makes the records of all CronJobs.
func (r *records) readCronJobs(s *store.Snapshot) error {
	return each(s, cronJobs, newCronJob, func(key string, cj *batchv1.CronJob) error {
		r.crons.set(key, cj)
		r.crons.dirty.add(key)
		if cj.DeletionTimestamp != nil {
			r.deleting.add(key)
		}
		return nil
	})
}
