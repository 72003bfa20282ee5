// Package cron decides what a batch/v1 CronJob needs next.
//
// In come the CronJob, changes of its Jobs, which the control loop folds into a Record, and the time. Out goes a
// Decision: a Job to be started, Jobs to be deleted, the status, events, and when to decide again. The loop carries it
// out in one transaction. Nothing here does I/O.
package cron

import (
	"cmp"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/batch"
)

// Record is what decisions need to know about a CronJob beside its object: the Jobs that it controls, and which events
// were recorded already. It must not be used by several goroutines at a time.
type Record struct {
	jobs map[types.UID]*Job

	memory  Memory
	unsaved bool      // memory is not what is stored
	policy  string    // see SetNamespacePolicy
	told    time.Time // the last scheduled time for which an event said that no Job is started
}

// Memory is what has to outlive the daemon.
type Memory struct {
	Schedule string `json:"schedule"` // as it was last seen, with its time zone and further schedules
	// Since is when the schedule was changed to that, zero if it has always been that. It does not apply to the time before.
	Since time.Time `json:"since,omitzero"`
}

// Job is what decisions need of a CronJob's Job.
type Job struct {
	UID  types.UID
	Name string

	end       batchv1.JobConditionType // Complete or Failed, empty while it goes on
	started   time.Time
	completed time.Time
	deleting  bool
	held      bool // see batch.HeldBack
	retried   bool // it goes on after it had finished, and the CronJob had started it
	known     bool // a decision has seen it before
}

// NewRecord makes the record of a CronJob. SetJob is then to be called with its Jobs.
func NewRecord(cj *batchv1.CronJob) *Record {
	return &Record{jobs: map[types.UID]*Job{}, memory: Memory{Schedule: scheduleOf(cj)}, unsaved: true}
}

// Recall folds in what was stored of an earlier record of the CronJob. If the schedule is another one, it was changed
// since then, and by now at the latest.
func (r *Record) Recall(m Memory, now time.Time) {
	is := r.memory.Schedule
	r.memory, r.unsaved = m, false
	r.reschedule(is, now)
	r.ClockSetBack(now)
}

// Memory returns what is to be stored, and whether it is already.
func (r *Record) Memory() (m Memory, saved bool) { return r.memory, !r.unsaved }

// Saved folds in that Memory is stored.
func (r *Record) Saved() { r.unsaved = false }

// ClockSetBack folds in that the clock was ahead: the schedule was not changed later than now.
func (r *Record) ClockSetBack(now time.Time) {
	if now = now.Round(0); r.memory.Since.After(now) {
		r.memory.Since, r.unsaved = now, true
	}
}

func (r *Record) reschedule(schedule string, now time.Time) {
	if schedule != r.memory.Schedule {
		r.memory, r.unsaved = Memory{Schedule: schedule, Since: now.Round(0)}, true
	}
}

// SetCronJob folds in a new version of the CronJob, which was stored at now. A schedule that has changed does not apply
// to the time before.
func (r *Record) SetCronJob(cj *batchv1.CronJob, now time.Time) {
	r.reschedule(scheduleOf(cj), now)
}

// SetNamespacePolicy folds in the policy of the concurrency group of the namespace, for Jobs that name none; empty if there is none. It
// is asked for with jobd.dev/missed=all only.
func (r *Record) SetNamespacePolicy(policy string) { r.policy = policy }

// SetJob folds in a Job that the CronJob controls, and reports whether Decide is to be called.
func (r *Record) SetJob(j *batchv1.Job) bool {
	next := Job{UID: j.UID, Name: j.Name, end: end(j), deleting: j.DeletionTimestamp != nil, held: batch.HeldBack(j),
		retried: batch.AttemptOf(j.Annotations) > 1 && j.Annotations[batchv1.CronJobScheduledTimestampAnnotation] != ""}
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
	return !ok || old.end != next.end || old.deleting != next.deleting || old.held && !next.held
}

// DropJob folds in that a Job is gone, or not the CronJob's any more.
func (r *Record) DropJob(uid types.UID) { delete(r.jobs, uid) }

// Jobs returns the Jobs in the order in which they were started.
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

// Told folds in that a Decision was carried out, so that its events are not recorded again.
func (r *Record) Told(d Decision) {
	for _, j := range r.jobs {
		j.known = true
	}
	if !d.told.IsZero() {
		r.told = d.told
	}
}

// end returns what a Job has finished with, Complete or Failed, and nothing while it has not.
func end(j *batchv1.Job) batchv1.JobConditionType {
	if c := batch.End(&j.Status); c != nil {
		return c.Type
	}
	return ""
}
