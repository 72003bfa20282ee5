package notify

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/api/notices"
)

// Seen is the state of a Job as far as notices depend on it.
type Seen struct {
	// Started: a pod has run, in this attempt.
	Started bool
	// Ended: the Job has finished.
	Ended   bool
	Attempt int
}

// See returns the state of a Job.
func See(j *batchv1.Job) Seen {
	s := &j.Status
	ended := batch.End(s) != nil
	ran := ptr.Deref(s.Ready, 0) > 0 || s.Failed > 0
	if n := batch.AttemptOf(j.Annotations); n > 1 {
		return Seen{Started: ran || ended, Ended: ended, Attempt: n} // what has succeeded was before
	}
	return Seen{Started: ran || s.Succeeded > 0 || ended, Ended: ended, Attempt: 1}
}

// Then returns the state of a Job that was seen in another one. What has started stays so, though no pod may run just now.
func (was Seen) Then(j *batchv1.Job) Seen {
	is := See(j)
	is.Started = is.Started || was.Started && was.Attempt == is.Attempt
	return is
}

// SeeSet returns the state of a JobSet, of which a pod has run or not. It has one attempt here, however often it begins its Jobs anew.
func SeeSet(js *jobsetv1.JobSet, begun bool) Seen {
	ended := jobset.End(&js.Status) != nil
	return Seen{Started: begun || js.Status.Restarts > 0 || ended, Ended: ended, Attempt: 1}
}

// Work is a Job or a JobSet, as far as notices tell of it.
type Work struct {
	Seen // its state now

	object   Object
	cronJob  string    // that controls it; empty for none
	since    time.Time // when it could have started
	due      time.Time // when it was to start
	heldBack bool      // it is not to start now
	ran      bool      // a pod of it has ended
	end      end       // once it has ended
}

// end is how a Job or JobSet has ended, as its last condition has it.
type end struct {
	result, reason, message string
	at                      time.Time
}

// OfJob returns a Job in a state that was seen, and its CronJob; empty for none.
func OfJob(j *batchv1.Job, seen Seen, cronJob string) Work {
	closed, _ := batch.WindowClosed(&j.Status)
	since := waitingSince(j)
	w := Work{
		Seen: seen, cronJob: cronJob, since: since, due: dueSince(j, since),
		object:   Object{Kind: "Job", Namespace: j.Namespace, Name: j.Name, UID: string(j.UID)},
		heldBack: ptr.Deref(j.Spec.Suspend, false) || closed != nil || j.DeletionTimestamp != nil,
		ran:      j.Status.Succeeded > 0 || j.Status.Failed > 0,
	}
	if c := batch.End(&j.Status); c != nil {
		w.end = end{string(c.Type), c.Reason, c.Message, c.LastTransitionTime.Time}
	}
	return w
}

// OfJobSet returns a JobSet in a state that was seen.
func OfJobSet(js *jobsetv1.JobSet, seen Seen) Work {
	since := setWaitingSince(js)
	w := Work{
		Seen: seen, since: since, due: since,
		object:   Object{Kind: "JobSet", Namespace: js.Namespace, Name: js.Name, UID: string(js.UID)},
		heldBack: jobset.Suspended(js) || js.DeletionTimestamp != nil,
		ran:      true, // what has ended does not say so any more, and its start is always told
	}
	if c := jobset.End(&js.Status); c != nil {
		w.end = end{string(jobset.Result(&js.Status)), c.Reason, c.Message, c.LastTransitionTime.Time}
	}
	return w
}

// notice returns a notice about a Job or JobSet. One of a kind is sent for each attempt, and one for its end, whatever that is.
func (w *Work) notice(kind notices.Kind, at time.Time) Notice {
	part := string(kind)
	if kind == notices.Finished {
		part = "end"
	}
	id := []any{w.object.UID, "/", part}
	if w.object.Kind == "Job" {
		id = append(id, "/", w.Attempt)
	}
	return Notice{
		ID: newID(id...), Kind: kind, Attempt: w.Attempt, At: at, Object: w.object, CronJob: w.cronJob,
		Help: "jobctl why " + w.object.String() + " -n " + w.object.Namespace,
	}
}

// waitingSince returns since when a Job could have started: since it was created, resumed or retried, or its window has opened.
func waitingSince(j *batchv1.Job) time.Time {
	since := j.CreationTimestamp.Time
	for i := range j.Status.Conditions {
		if c := &j.Status.Conditions[i]; (c.Type == batchv1.JobSuspended || c.Type == batch.JobWindowClosed) && c.LastTransitionTime.After(since) {
			since = c.LastTransitionTime.Time
		}
	}
	if all := batch.Attempts(j.Annotations); len(all) > 0 {
		if retried := all[len(all)-1].RetriedAt.Time; retried.After(since) {
			since = retried
		}
	}
	return since
}

// dueSince returns when a Job was to start, which could have started since then: that of a CronJob at the time of the schedule.
func dueSince(j *batchv1.Job, since time.Time) time.Time {
	if text, ok := j.Annotations[batchv1.CronJobScheduledTimestampAnnotation]; ok && since.Equal(j.CreationTimestamp.Time) {
		if at, err := time.Parse(time.RFC3339, text); err == nil && at.Before(since) {
			return at
		}
	}
	return since
}

// setWaitingSince returns since when a JobSet could have started: since it was created or resumed.
func setWaitingSince(js *jobsetv1.JobSet) time.Time {
	since := js.CreationTimestamp.Time
	for i := range js.Status.Conditions {
		if c := &js.Status.Conditions[i]; c.Type == string(jobsetv1.JobSetSuspended) && c.LastTransitionTime.After(since) {
			since = c.LastTransitionTime.Time
		}
	}
	return since
}
