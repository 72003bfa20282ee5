// Package cron decides what a batch/v1 CronJob needs next. Everything in it is a function of what is known and the
// time; the daemon's loop folds changes into a Record, asks Decide, and carries the Decision out in one transaction.
package cron

import (
	"cmp"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/job"
)

// Record is what decisions need to know of a CronJob beside its object: the Jobs that it controls, and what has been
// said already. One goroutine at a time may use it.
type Record struct {
	jobs map[types.UID]*Job

	schedule string    // as it was last seen
	since    time.Time // when that became the schedule, zero if it was when the daemon started
	told     time.Time // the scheduled time that was last told not to be kept
}

// Job is what must be known of a CronJob's Job.
type Job struct {
	UID  types.UID
	Name string

	end       batchv1.JobConditionType // Complete or Failed, empty while it goes on
	started   time.Time
	completed time.Time
	deleting  bool
	known     bool // a decision has seen it before
}

// NewRecord makes the record of a CronJob, whose Jobs are then to be given to SetJob.
func NewRecord(cj *batchv1.CronJob) *Record {
	return &Record{jobs: map[types.UID]*Job{}, schedule: scheduleOf(&cj.Spec)}
}

// SetCronJob folds a new version of the CronJob in, which was stored at now: a schedule that has changed says nothing
// about the time before.
func (r *Record) SetCronJob(cj *batchv1.CronJob, now time.Time) {
	if s := scheduleOf(&cj.Spec); s != r.schedule {
		r.schedule, r.since = s, now
	}
}

// SetJob folds in a Job that the CronJob controls, and tells whether there may be something to decide.
func (r *Record) SetJob(j *batchv1.Job) bool {
	next := Job{UID: j.UID, Name: j.Name, end: end(j), deleting: j.DeletionTimestamp != nil}
	if t := j.Status.StartTime; t != nil {
		next.started = t.Time
	}
	if t := j.Status.CompletionTime; t != nil {
		next.completed = t.Time
	}
	old, ok := r.jobs[j.UID]
	if ok {
		next.known = old.known
	}
	r.jobs[j.UID] = &next
	return !ok || old.end != next.end || old.deleting != next.deleting
}

// DropJob folds in that a Job is gone, or not the CronJob's any more.
func (r *Record) DropJob(uid types.UID) { delete(r.jobs, uid) }

// Jobs gives the Jobs from the first that was started to the last.
func (r *Record) Jobs() []Job {
	all := make([]Job, 0, len(r.jobs))
	for _, j := range r.jobs {
		all = append(all, *j)
	}
	slices.SortFunc(all, func(a, b Job) int {
		if a.started.IsZero() != b.started.IsZero() { // those that never started come last
			if a.started.IsZero() {
				return 1
			}
			return -1
		}
		return cmp.Or(a.started.Compare(b.started), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// Told folds in that a Decision was carried out: what it said needs not to be said again.
func (r *Record) Told(d Decision) {
	for _, j := range r.jobs {
		j.known = true
	}
	if !d.told.IsZero() {
		r.told = d.told
	}
}

// end is what a Job has finished with, Complete or Failed, empty if it has not.
func end(j *batchv1.Job) batchv1.JobConditionType {
	if c := job.End(&j.Status); c != nil {
		return c.Type
	}
	return ""
}
