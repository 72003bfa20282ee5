package parents

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/notices"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/causes"
	"github.com/jobd/jobd/daemon/cron"
)

// A cronJobCause returns the reasons of one kind for the state of a CronJob; none if they do not apply.
type cronJobCause func(*cronJobView) []why.Cause

// cronJobCauses are in the order in which they are told.
var cronJobCauses = []cronJobCause{
	cronJobTerminating,
	cronJobSuspended,
	cronJobSchedule,
	cronJobOverdue,
	cronJobAhead,
	cronJobMissed,
	cronJobRefused,
	cronJobRuns,
	cronJobLast,
}

// cronJobView is a CronJob with its Jobs in its world.
type cronJobView struct {
	causes.World
	cronJob *batchv1.CronJob
	jobs    []*batchv1.Job
	last    *why.Explanation
	times   cron.Times
	err     error // why the schedule has no times
}

// CronJob explains a CronJob. jobs are those that it controls; last explains the latest of them that has failed, nil if
// the latest that has ended did not.
func CronJob(w causes.World, cj *batchv1.CronJob, jobs []*batchv1.Job, last *why.Explanation) *why.Explanation {
	v := newCronJobView(w, cj, jobs, last)
	state, message := v.state()
	return w.Explain("CronJob", cj, state, message, causes.Gather(cronJobCauses, v))
}

func newCronJobView(w causes.World, cj *batchv1.CronJob, jobs []*batchv1.Job, last *why.Explanation) *cronJobView {
	v := &cronJobView{World: w, cronJob: cj, jobs: jobs, last: last}
	v.times, v.err = cron.TimesOf(cj, w.ScheduledSince, w.Now)
	return v
}

func (v *cronJobView) suspended() bool { return ptr.Deref(v.cronJob.Spec.Suspend, false) }

func (v *cronJobView) state() (state, message string) {
	switch {
	case v.cronJob.DeletionTimestamp != nil:
		return "Terminating", "is being deleted."
	case v.suspended():
		return "Suspended", "is suspended."
	case v.err != nil:
		return "Invalid", "starts nothing, since its schedule has no times."
	case len(v.cronJob.Status.Active) > 0:
		return "Running", fmt.Sprintf("runs (unfinished Jobs: %d).", len(v.cronJob.Status.Active))
	}
	return "Waiting", "waits for its next time."
}

// cronJobTerminating is the deletion of a CronJob.
func cronJobTerminating(v *cronJobView) []why.Cause {
	return deletion(&v.World, v.cronJob)
}

// cronJobSuspended is spec.suspend.
func cronJobSuspended(v *cronJobView) []why.Cause {
	if !v.suspended() {
		return nil
	}
	c := why.Cause{Type: "Suspended", Message: "Its spec.suspend is true, so it starts no Jobs.", Details: map[string]string{}}
	if name, when := why.Manager(v.cronJob, "spec", "suspend"); name != "" {
		c.Message = fmt.Sprintf("%s has set its spec.suspend to true, so it starts no Jobs.", name)
		c.Details["manager"] = name
		c.Since = why.At(when)
	}
	c.Help = []string{fmt.Sprintf("jobctl resume cronjobs/%s%s", v.cronJob.Name, why.InNamespace(v.cronJob.Namespace))}
	return []why.Cause{c}
}

// cronJobSchedule is the schedule, and its last and next time.
func cronJobSchedule(v *cronJobView) []why.Cause {
	if v.err != nil {
		return []why.Cause{
			{Type: "InvalidSchedule", Message: fmt.Sprintf("Its schedule %q cannot be followed: %s", v.cronJob.Spec.Schedule, why.Sentence(v.err.Error()))},
		}
	}
	c := why.Cause{
		Type: "Schedule", Message: fmt.Sprintf("Its schedule is %q", v.cronJob.Spec.Schedule), Details: map[string]string{},
	}
	if further, ok := v.cronJob.Annotations[batch.SchedulesAnnotation]; ok {
		c.Message = fmt.Sprintf("Its schedules are %q and, by %s, %q", v.cronJob.Spec.Schedule, batch.SchedulesAnnotation, further)
	}
	if zone := v.cronJob.Spec.TimeZone; zone != nil {
		c.Message += " in " + *zone
	}
	if last := v.cronJob.Status.LastScheduleTime; last != nil {
		c.Message += fmt.Sprintf("; the last Job was started for %s", v.clock(last.Time))
		c.Details["lastScheduleTime"] = last.UTC().Format(time.RFC3339)
	} else {
		c.Message += "; it has not started any Job yet"
	}
	switch {
	case v.times.Next.IsZero():
		c.Type = "NeverDue"
		c.Message += ". No such time comes within five years."
	case v.suspended() || v.cronJob.DeletionTimestamp != nil:
		c.Message += "."
	default:
		c.Message += fmt.Sprintf(". The next time is %s", v.clock(v.times.Next))
		if v.times.Offset > 0 {
			c.Message += fmt.Sprintf(", and its Job starts %v after it: %s is %s", v.times.Offset, batch.JitterAnnotation,
				v.cronJob.Annotations[batch.JitterAnnotation])
		}
		c.Message += "."
		c.Until = why.At(v.times.Starts())
		c.Details["nextScheduleTime"] = v.times.Next.UTC().Format(time.RFC3339)
		c.Details["nextStartTime"] = v.times.Starts().UTC().Format(time.RFC3339)
	}
	return []why.Cause{c}
}

// cronJobOverdue is that no Job has succeeded within the time that is expected.
func cronJobOverdue(v *cronJobView) []why.Cause {
	late := notices.Expect(v.cronJob.Annotations, v.cronJob.CreationTimestamp, v.cronJob.Status.LastSuccessfulTime, v.Now)
	if !late.Overdue || v.cronJob.DeletionTimestamp != nil {
		return nil
	}
	c := why.Cause{
		Type: "Overdue", Since: why.At(late.Due), Message: fmt.Sprintf(
			"It is overdue: no Job has succeeded within %s (%s)", duration.HumanDuration(notices.Every(v.cronJob.Annotations)), notices.EveryAnnotation,
		),
		Help: []string{fmt.Sprintf("jobctl history cronjobs/%s%s", v.cronJob.Name, why.InNamespace(v.cronJob.Namespace))},
	}
	if last := v.cronJob.Status.LastSuccessfulTime; last != nil {
		c.Message += fmt.Sprintf("; the last success was at %s.", v.clock(last.Time))
	} else {
		c.Message += "; none has so far."
	}
	return []why.Cause{c}
}

// clock shows a time in the time zone of the CronJob, or in that of the machine if it has none.
func (v *cronJobView) clock(t time.Time) string {
	if in, err := time.LoadLocation(ptr.Deref(v.cronJob.Spec.TimeZone, "")); v.cronJob.Spec.TimeZone != nil && err == nil {
		t = t.In(in)
	}
	return t.Format("2006-01-02 15:04:05 MST")
}

// cronJobAhead is a last time that is in the future: the clock was ahead, or the status comes from elsewhere.
func cronJobAhead(v *cronJobView) []why.Cause {
	last := v.cronJob.Status.LastScheduleTime
	if last == nil || !last.After(v.Now) {
		return nil
	}
	return []why.Cause{{
		Type: "ScheduledInTheFuture", Until: why.At(last.Time), Details: map[string]string{"lastScheduleTime": last.UTC().Format(time.RFC3339)},
		Message: fmt.Sprintf("Its status.lastScheduleTime is in the future, and no Job is started for a time before that: %s. The "+
			"clock was ahead, or the status was written by a client.",
			v.clock(last.Time)),
		Help: []string{fmt.Sprintf(`jobctl patch cronjobs/%s%s --subresource=status --type=merge -p '{"status":{"lastScheduleTime":"%s"}}'`,
			v.cronJob.Name, why.InNamespace(v.cronJob.Namespace), v.Now.UTC().Format(time.RFC3339))},
	}}
}

// cronJobMissed is a time for which no Job was started.
func cronJobMissed(v *cronJobView) []why.Cause {
	if v.err != nil || v.times.Due.IsZero() || v.cronJob.DeletionTimestamp != nil {
		return nil
	}
	c := why.Cause{
		Type: "MissedTime", Since: why.At(v.times.Due), Details: map[string]string{"scheduledTime": v.times.Due.UTC().Format(time.RFC3339)},
	}
	active := v.cronJob.Status.Active
	missed := fmt.Sprintf("No Job was started for %s", v.clock(v.times.Due))
	switch {
	case v.suspended():
		c.Message = missed + ", since it is suspended."
		switch {
		case v.times.Waiting > 1:
			c.Message += fmt.Sprintf(" A Job will be started for it and for each of %d later times once it is resumed, since %s is all.",
				v.times.Waiting-1, batch.MissedAnnotation)
		case v.times.Expires.IsZero():
			c.Message += " One Job will be started for it once it is resumed, since startingDeadlineSeconds is not set."
		}
	case batch.OneByOne(v.cronJob, "") && len(active) > 0:
		c.Type = "ConcurrencyForbidden"
		c.Message = fmt.Sprintf("%s, since jobs/%s still runs and concurrencyPolicy is Forbid.", missed, active[0].Name)
		if v.cronJob.Spec.ConcurrencyPolicy != batchv1.ForbidConcurrent {
			c.Message = fmt.Sprintf("%s, since jobs/%s still runs, and by the policy of their concurrency group one of them would end (%s).",
				missed, active[0].Name, core.ConcurrencyPolicyAnnotation)
		}
		c.Help = []string{fmt.Sprintf("jobctl why jobs/%s%s", active[0].Name, why.InNamespace(v.cronJob.Namespace))}
		switch {
		case v.times.Expired:
			c.Message += fmt.Sprintf(" That time is missed for good: %s is over.", v.latest())
		case !v.times.Expires.IsZero():
			c.Message += fmt.Sprintf(" It is made up for if that Job ends in time, by %s.", v.latest())
			c.Until = why.At(v.times.Expires)
		default:
			c.Message += " It is made up for once that Job has ended."
		}
		c.Message += v.further()
	case v.held() >= v.times.MaxHeld:
		c.Type = "TooManyWaitingJobs"
		c.Message = fmt.Sprintf("%s, since %d of its Jobs wait for other Jobs, for their window, for a place in their concurrency group or to be "+
			"continued: no more are started before one of these begins or is gone.", missed, v.held())
		c.Help = []string{"jobctl get jobs" + why.InNamespace(v.cronJob.Namespace)}
	case v.times.Expired:
		c.Type = "StartingDeadlineExceeded"
		c.Message = fmt.Sprintf("%s, and it is missed for good: %s was over before a Job could be "+
			"started. Nothing served at that time, or another Job still ran.",
			missed, v.latest())
	default:
		c.Message = missed + " yet." + v.further()
	}
	return []why.Cause{c}
}

// held returns how many of its Jobs are held back before they start.
func (v *cronJobView) held() (n int) {
	for _, j := range v.jobs {
		if j.DeletionTimestamp == nil && batch.HeldBack(j) {
			n++
		}
	}
	return n
}

// latest names what says how late a Job may start.
func (v *cronJobView) latest() string {
	if limit := v.cronJob.Spec.StartingDeadlineSeconds; limit != nil {
		return fmt.Sprintf("startingDeadlineSeconds (%s)", podspec.Seconds(*limit))
	}
	return fmt.Sprintf("the time within which a Job starts (%v) where %s is none", v.times.Late, batch.MissedAnnotation)
}

// further says how many missed times there are beside the first.
func (v *cronJobView) further() string {
	if v.times.Waiting < 2 {
		return ""
	}
	return fmt.Sprintf(" After it come Jobs for the %d later times that were missed (%s is all).", v.times.Waiting-1, batch.MissedAnnotation)
}

// cronJobRefused is a Job that could not be created.
func cronJobRefused(v *cronJobView) []why.Cause {
	e := v.LastEvent(v.cronJob.UID, "FailedCreate", "UnknownTimeZone", "TooManyMissedTimes")
	if e == nil {
		return nil
	}
	if last := v.cronJob.Status.LastScheduleTime; last != nil && e.Reason == "FailedCreate" && last.After(core.LastSeen(e)) {
		return nil
	}
	return []why.Cause{{Type: e.Reason, Message: why.Sentence(e.Message), Since: why.At(core.LastSeen(e))}}
}

// cronJobRuns are the Jobs that run.
func cronJobRuns(v *cronJobView) (all []why.Cause) {
	for _, ref := range v.cronJob.Status.Active {
		all = append(all, why.Cause{
			Type: "JobRuns", Message: fmt.Sprintf("has not ended yet (concurrencyPolicy %s).", v.cronJob.Spec.ConcurrencyPolicy),
			Object: &why.Reference{Kind: "Job", Namespace: v.cronJob.Namespace, Name: ref.Name},
			Help:   []string{fmt.Sprintf("jobctl why jobs/%s%s", ref.Name, why.InNamespace(v.cronJob.Namespace))},
		})
	}
	return all
}

// cronJobLast is why the last Job has failed.
func cronJobLast(v *cronJobView) []why.Cause {
	if v.last == nil {
		return nil
	}
	object := v.last.Object
	return []why.Cause{{Type: "LastJobFailed", Object: &object, Message: v.last.Message, Causes: v.last.Causes}}
}

// LastEnded returns the Job that has ended last; nil if none has.
func LastEnded(jobs []*batchv1.Job) (last *batchv1.Job) {
	var when time.Time
	for _, j := range jobs {
		if end := batch.End(&j.Status); end != nil && (last == nil || end.LastTransitionTime.After(when)) {
			last, when = j, end.LastTransitionTime.Time
		}
	}
	return last
}
