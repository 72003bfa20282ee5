package cron

import (
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
)

// Decision is what is to be done for a CronJob, all in one transaction and in the order of the fields.
type Decision struct {
	Events []Event
	Delete []Job         // with their pods, in the background
	Start  time.Time     // the scheduled time of a Job to be created now: NewJob, then Started; zero for none
	Late   time.Duration // by how much later than Start that Job is to be started, by jobd.dev/jitter
	More   bool          // there are further times to be made up for: decide again once the Job of Start exists

	// Status is the next status, without the Job that is created now. Changed says that it differs from the stored one.
	Status  batchv1.CronJobStatus
	Changed bool

	Wake time.Time // when to decide again without a change; zero: never

	told time.Time
}

// Event is an event to be recorded for the CronJob.
type Event struct{ Type, Reason, Message string }

// Decide returns what a CronJob needs now. It changes nothing: for the same CronJob, Record and time it returns the
// same Decision.
func Decide(cj *batchv1.CronJob, r *Record, now time.Time) Decision {
	d := &decision{cj: cj, r: r, now: now, jobs: r.Jobs(), active: sets.New[types.UID]()}
	cj.Status.DeepCopyInto(&d.Status)
	for i := range d.Status.Active {
		d.active.Insert(d.Status.Active[i].UID)
	}
	d.follow()
	if cj.DeletionTimestamp == nil {
		d.schedule()
	}
	d.keep(batchv1.JobComplete, cj.Spec.SuccessfulJobsHistoryLimit)
	d.keep(batchv1.JobFailed, cj.Spec.FailedJobsHistoryLimit)
	d.Status.Active = slices.DeleteFunc(d.Status.Active, func(ref corev1.ObjectReference) bool { return !d.active.Has(ref.UID) })
	return d.Decision
}

// decision is a Decision in the making.
type decision struct {
	Decision
	cj   *batchv1.CronJob
	r    *Record
	now  time.Time
	jobs []Job
	// active are the Jobs in status.active that stay there.
	active sets.Set[types.UID]
}

func (d *decision) event(kind, reason, format string, args ...any) {
	d.Events = append(d.Events, Event{kind, reason, fmt.Sprintf(format, args...)})
}

func (d *decision) warn(reason, format string, args ...any) {
	d.event(corev1.EventTypeWarning, reason, format, args...)
}

func (d *decision) say(reason, format string, args ...any) {
	d.event(corev1.EventTypeNormal, reason, format, args...)
}

// follow updates CronJobStatus to what has become of the Jobs.
func (d *decision) follow() {
	for _, j := range d.jobs {
		active := d.active.Has(j.UID)
		switch {
		case j.end != "" && active:
			d.drop(j.UID)
			d.say("SawCompletedJob", "Saw completed job: %s, condition: %s", j.Name, j.end)
		case j.end == "" && !active && j.retried:
			d.Status.Active = append(d.Status.Active, corev1.ObjectReference{
				APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Namespace: d.cj.Namespace, Name: j.Name, UID: j.UID,
			})
			d.active.Insert(j.UID)
			d.Changed = true
			d.say("SawRetriedJob", "Saw retried job: %s", j.Name)
		case j.end == "" && !active && !j.known:
			d.warn("UnexpectedJob", "Saw a job that the controller did not create or forgot: %s", j.Name)
		}
		if last := d.Status.LastSuccessfulTime; j.end == batchv1.JobComplete && !j.completed.IsZero() &&
			(last == nil || j.completed.After(last.Time)) {
			d.Status.LastSuccessfulTime = ptr.To(metav1.NewTime(j.completed))
			d.Changed = true
		}
	}
	for i := range d.Status.Active {
		ref := &d.Status.Active[i]
		if _, ok := d.r.jobs[ref.UID]; !ok {
			d.say("MissingJob", "Active job went missing: %s", ref.Name)
			d.drop(ref.UID)
		}
	}
}

// drop removes a Job from status.active.
func (d *decision) drop(uid types.UID) {
	d.active.Delete(uid)
	d.Changed = true
}

// schedule decides whether a Job is to be started. If several starts were missed, one Job is started for the last of them,
// unless jobd.dev/missed says otherwise.
func (d *decision) schedule() {
	spec := &d.cj.Spec
	if _, err := zone(spec); err != nil {
		d.warn("UnknownTimeZone", "%v", err)
		return
	}
	if ptr.Deref(spec.Suspend, false) {
		return
	}
	if strings.Contains(spec.Schedule, "TZ") {
		d.warn("UnsupportedSchedule",
			"CRON_TZ or TZ used in schedule %q is not officially supported, see "+
				"https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details", spec.Schedule)
	}
	said, err := batch.CronJobTimesOf(d.cj)
	if err != nil {
		d.warn("InvalidAnnotation", "no Job is started: %v", err)
		return
	}
	p, err := planOf(d.cj, said)
	if err != nil {
		d.warn("UnparseableSchedule", "unparseable schedule: %q : %v", spec.Schedule, err)
		return
	}
	d.start(p)
}

// start decides for which scheduled time a Job is to be started, if any. All times in it are scheduled ones, by a clock that is behind
// by the offset of the CronJob.
func (d *decision) start(p *plan) {
	spec, clock := &d.cj.Spec, d.now.Add(-p.Offset)
	from := batch.From(d.cj)
	at := p.due(d.cj, clock)
	if at.IsZero() {
		next := batch.NextAfter(p.Union, d.cj, from)
		if next.IsZero() {
			d.warn("InvalidSchedule", "invalid schedule: %s : no such time comes within five years", spec.Schedule)
			return
		}
		d.Wake = next.Add(p.Offset)
		return
	}
	if d.Wake = p.Next(at); !d.Wake.After(clock) {
		d.Wake = p.Next(clock)
	}
	if !d.Wake.IsZero() {
		d.Wake = d.Wake.Add(p.Offset)
	}
	notBefore := d.r.memory.Since
	if at.Before(notBefore) {
		return
	}
	counted := from
	if limit, limited := p.lateness(spec); limited {
		earliest := clock.Add(-limit)
		whole := earliest.Truncate(time.Second)
		if at.Before(whole) {
			if d.tell(at) {
				d.warn("MissSchedule", "Missed scheduled time to start a job: %s", at.UTC().Format(time.RFC1123Z))
			}
			return
		}
		if whole.After(notBefore) {
			notBefore = whole
		}
		if earliest.After(from) {
			counted = earliest
		}
	}
	if !d.concurrent(at) || !d.unheld(at, p) {
		return
	}
	more := false
	if p.Missed == batch.MissedAll {
		var times []time.Time
		if times, more = p.Newest(from, notBefore, clock, p.MissedMax); len(times) > 0 {
			at = times[0]
			d.More = len(times) > 1
		}
	}
	switch {
	case more:
		d.warn("TooManyMissedTimes", "Missed times before %s are not made up for: no more than the latest %d are (%s)",
			at.UTC().Format(time.RFC1123Z), p.MissedMax, batch.MissedMaxAnnotation)
	case p.Missed == "" && many(p.Union, counted, clock):
		d.warn("TooManyMissedTimes",
			"too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew")
	}
	d.Start, d.Late = at, p.Offset
}

// tell records a scheduled time at which no Job is started, and reports whether there was no event about it yet.
func (d *decision) tell(at time.Time) bool {
	d.told = at
	return !d.r.told.Equal(at)
}

// concurrent applies CronJobSpec.ConcurrencyPolicy and reports whether a Job may be started.
func (d *decision) concurrent(at time.Time) bool {
	policy := d.cj.Spec.ConcurrencyPolicy
	switch {
	case batch.OneByOne(d.cj, d.r.policy):
		if d.active.Len() == 0 {
			break
		}
		why := "concurrency policy is Forbid"
		if policy != batchv1.ForbidConcurrent {
			why = fmt.Sprintf("the policy of its concurrency group would end one of them (%s)", core.ConcurrencyPolicyAnnotation)
		}
		if d.tell(at) {
			d.say("JobAlreadyActive", "Not starting job because prior execution is running and %s", why)
		}
		return false
	case policy == batchv1.ReplaceConcurrent:
		for _, j := range d.jobs {
			if d.active.Has(j.UID) {
				d.remove(j)
			}
		}
	}
	return true
}

// unheld reports whether another Job may be started beside those that are held back before they start. What they wait for may never
// come, such as the success of a Job that has failed.
func (d *decision) unheld(at time.Time, p *plan) bool {
	held, first := 0, ""
	for _, j := range d.jobs {
		if j.held && !j.deleting && d.active.Has(j.UID) {
			if held++; first == "" {
				first = j.Name
			}
		}
	}
	if held < p.MaxHeld() {
		return true
	}
	if d.tell(at) {
		d.warn("TooManyWaitingJobs", "No job is started: %d wait for other jobs, for their window, for a place in their concurrency group or to be continued, the first is %s",
			held, first)
	}
	return false
}

// keep deletes the oldest finished Jobs beyond the limit of their history.
func (d *decision) keep(end batchv1.JobConditionType, limit *int32) {
	if limit == nil {
		return
	}
	var over []Job
	for _, j := range d.jobs {
		if j.end == end && !j.deleting {
			over = append(over, j)
		}
	}
	for _, j := range over[:max(0, len(over)-int(*limit))] {
		d.remove(j)
	}
}

func (d *decision) remove(j Job) {
	d.Delete = append(d.Delete, j)
	d.say("SuccessfulDelete", "Deleted job %s", j.Name)
	if d.active.Has(j.UID) {
		d.drop(j.UID)
	}
}
