package causes

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/cron"
)

// cronJobView is a CronJob with its Jobs in its world.
type cronJobView struct {
	World
	cronJob *batchv1.CronJob
	jobs    []*batchv1.Job
	last    *why.Explanation
	times   cron.Times
	err     error // why the schedule has no times
}

func newCronJobView(w World, cj *batchv1.CronJob, jobs []*batchv1.Job, last *why.Explanation) *cronJobView {
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

// cronJobSuspended is spec.suspend.
func cronJobSuspended(v *cronJobView) []why.Cause {
	if !v.suspended() {
		return nil
	}
	c := why.Cause{Type: "Suspended", Message: "Its spec.suspend is true, so it starts no Jobs.", Details: map[string]string{}}
	if name, when := manager(v.cronJob, "spec", "suspend"); name != "" {
		c.Message = fmt.Sprintf("%s has set its spec.suspend to true, so it starts no Jobs.", name)
		c.Details["manager"] = name
		c.Since = at(when)
	}
	c.Help = []string{fmt.Sprintf("jobctl resume cronjobs/%s%s", v.cronJob.Name, inNamespace(v.cronJob.Namespace))}
	return []why.Cause{c}
}

// cronJobSchedule is the schedule, and its last and next time.
func cronJobSchedule(v *cronJobView) []why.Cause {
	if v.err != nil {
		return []why.Cause{{Type: "InvalidSchedule", Message: fmt.Sprintf("Its schedule %q cannot be followed: %s", v.cronJob.Spec.Schedule, sentence(v.err.Error()))}}
	}
	c := why.Cause{
		Type: "Schedule", Message: fmt.Sprintf("Its schedule is %q", v.cronJob.Spec.Schedule), Details: map[string]string{},
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
	case v.suspended():
		c.Message += "."
	default:
		c.Message += fmt.Sprintf(". The next time is %s.", v.clock(v.times.Next))
		c.Until = at(v.times.Next)
		c.Details["nextScheduleTime"] = v.times.Next.UTC().Format(time.RFC3339)
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
		Type: "ScheduledInTheFuture", Until: at(last.Time), Details: map[string]string{"lastScheduleTime": last.UTC().Format(time.RFC3339)},
		Message: fmt.Sprintf("Its status.lastScheduleTime is in the future, and no Job is started for a time before that: %s. The clock was ahead, or the status was written by a client.",
			v.clock(last.Time)),
		Help: []string{fmt.Sprintf(`jobctl patch cronjobs/%s%s --subresource=status --type=merge -p '{"status":{"lastScheduleTime":"%s"}}'`,
			v.cronJob.Name, inNamespace(v.cronJob.Namespace), v.Now.UTC().Format(time.RFC3339))},
	}}
}

// cronJobMissed is a time for which no Job was started.
func cronJobMissed(v *cronJobView) []why.Cause {
	if v.err != nil || v.times.Due.IsZero() {
		return nil
	}
	c := why.Cause{
		Type: "MissedTime", Since: at(v.times.Due), Details: map[string]string{"scheduledTime": v.times.Due.UTC().Format(time.RFC3339)},
	}
	active := v.cronJob.Status.Active
	missed := fmt.Sprintf("No Job was started for %s", v.clock(v.times.Due))
	switch {
	case v.suspended():
		c.Message = missed + ", since it is suspended."
		if v.cronJob.Spec.StartingDeadlineSeconds == nil {
			c.Message += " One Job will be started for it once it is resumed, since startingDeadlineSeconds is not set."
		}
	case v.cronJob.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent && len(active) > 0:
		c.Type = "ConcurrencyForbidden"
		c.Message = fmt.Sprintf("%s, since jobs/%s still runs and concurrencyPolicy is Forbid.", missed, active[0].Name)
		c.Help = []string{fmt.Sprintf("jobctl why jobs/%s%s", active[0].Name, inNamespace(v.cronJob.Namespace))}
		switch {
		case v.times.Expired:
			c.Message += fmt.Sprintf(" That time is missed for good: startingDeadlineSeconds (%s) is over.", seconds(v.cronJob.Spec.StartingDeadlineSeconds))
		case !v.times.Expires.IsZero():
			c.Message += " It is made up for if that Job ends in time, by startingDeadlineSeconds."
			c.Until = at(v.times.Expires)
		default:
			c.Message += " It is made up for once that Job has ended."
		}
	case v.times.Expired:
		c.Type = "StartingDeadlineExceeded"
		c.Message = fmt.Sprintf("%s, and it is missed for good: startingDeadlineSeconds (%s) was over before a Job could be started. Nothing served at that time, or another Job still ran.",
			missed, seconds(v.cronJob.Spec.StartingDeadlineSeconds))
	default:
		c.Message = missed + " yet."
	}
	return []why.Cause{c}
}

// cronJobRefused is a Job that could not be created.
func cronJobRefused(v *cronJobView) []why.Cause {
	e := v.lastEvent(v.cronJob.UID, "FailedCreate", "UnknownTimeZone", "TooManyMissedTimes")
	if e == nil {
		return nil
	}
	if last := v.cronJob.Status.LastScheduleTime; last != nil && e.Reason == "FailedCreate" && last.After(seen(e)) {
		return nil
	}
	return []why.Cause{{Type: e.Reason, Message: sentence(e.Message), Since: at(seen(e))}}
}

// cronJobRuns are the Jobs that run.
func cronJobRuns(v *cronJobView) (all []why.Cause) {
	for _, ref := range v.cronJob.Status.Active {
		all = append(all, why.Cause{
			Type: "JobRuns", Message: fmt.Sprintf("has not ended yet (concurrencyPolicy %s).", v.cronJob.Spec.ConcurrencyPolicy),
			Object: &why.Reference{Kind: "Job", Namespace: v.cronJob.Namespace, Name: ref.Name},
			Help:   []string{fmt.Sprintf("jobctl why jobs/%s%s", ref.Name, inNamespace(v.cronJob.Namespace))},
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
