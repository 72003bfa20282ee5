package notify

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/notices"
)

const complete = string(batchv1.JobComplete)

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

// Memory is what is remembered of a CronJob, or of Jobs of one name.
type Memory struct {
	// Failed says that the last of the Jobs that have ended has failed.
	Failed bool `json:"failed,omitempty"`
	// Overdue is what was due when it was told that no Job has succeeded; nil if that was not told, or one has since.
	Overdue *time.Time `json:"overdue,omitempty"`

	// Every and Since are of an expectation of Jobs of one name: within which time one has to succeed, and since when that is
	// so. Last is when one has succeeded that was expected; nil if none has. Wanted is what the last of them asks for, which may
	// be gone when a notice is due.
	Every  time.Duration   `json:"every,omitempty"`
	Since  time.Time       `json:"since,omitzero"`
	Last   *time.Time      `json:"last,omitempty"`
	Wanted *notices.Wanted `json:"wanted,omitempty"`
}

// Due returns by when the next success of the name is expected.
func (m Memory) Due() time.Time { return m.Since.Add(m.Every) }

// Late reports whether that has passed.
func (m Memory) Late(now time.Time) bool { return !now.Before(m.Due()) }

// Succeeded returns what is remembered once a Job of the name has succeeded.
func (m Memory) Succeeded(at time.Time) Memory {
	m.Since, m.Last = at, &at
	return m
}

// Empty reports whether there is nothing to be remembered.
func (m Memory) Empty() bool { return !m.Failed && m.Overdue == nil && m.Every == 0 }

// Bad reports whether a success would be a recovery.
func (m Memory) Bad() bool { return m.Failed || m.Overdue != nil }

// Decide returns what has happened to a Job that was seen in one state and now is in another, and what is to be remembered of
// its name, or of the CronJob that controls it, if one does. A retry begins a Job anew.
func Decide(was Seen, j *batchv1.Job, cronJob string, m Memory, after time.Duration, now time.Time) ([]Notice, Memory) {
	is := was.Then(j)
	if was.Attempt != is.Attempt {
		was = Seen{}
	}
	var said []Notice
	if is.Started && !was.Started {
		if !is.Ended || ran(j) {
			said = append(said, about(j, cronJob, notices.Started, now))
		}
		if late := now.Sub(dueSince(j)); !is.Ended && late > after {
			n := about(j, cronJob, notices.StartedLate, now)
			n.Message = fmt.Sprintf("It has started %s after it was due.", duration.HumanDuration(late))
			said = append(said, n)
		}
	}
	if !is.Ended || was.Ended {
		return said, m
	}
	end := batch.End(&j.Status)
	n := about(j, cronJob, notices.Finished, end.LastTransitionTime.Time)
	n.Result, n.Reason, n.Message = string(end.Type), cut(end.Reason, maxReason), cut(end.Message, maxMessage)
	switch {
	case end.Type == batchv1.JobFailed:
		n.Kind, m.Failed = notices.Failed, true
	case m.Bad():
		n.Kind = notices.Recovered
	}
	if end.Type == batchv1.JobComplete {
		m.Failed, m.Overdue = false, nil
		if m.Every > 0 {
			m = m.Succeeded(n.At)
		}
	}
	return append(said, n), m
}

// ran reports whether any pod of a Job has ended.
func ran(j *batchv1.Job) bool { return j.Status.Succeeded > 0 || j.Status.Failed > 0 }

// about returns a notice about a Job. One of a kind is sent for each attempt, and one for its end, whatever that is.
func about(j *batchv1.Job, cronJob string, kind notices.Kind, at time.Time) Notice {
	attempt, part := batch.AttemptOf(j.Annotations), string(kind)
	if kind == notices.Finished {
		part = "end"
	}
	return Notice{
		ID: newID(j.UID, "/", part, "/", attempt), Kind: kind, Attempt: attempt, At: at,
		Object: Object{Kind: "Job", Namespace: j.Namespace, Name: j.Name, UID: string(j.UID)}, CronJob: cronJob,
		Help: "jobctl why jobs/" + j.Name + " -n " + j.Namespace,
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

// dueSince returns when a Job was to start, which for that of a CronJob is the time of the schedule.
func dueSince(j *batchv1.Job) time.Time {
	since := waitingSince(j)
	if text, ok := j.Annotations[batchv1.CronJobScheduledTimestampAnnotation]; ok && since.Equal(j.CreationTimestamp.Time) {
		if at, err := time.Parse(time.RFC3339, text); err == nil && at.Before(since) {
			return at
		}
	}
	return since
}

// WaitsUntil returns when it is worth a notice that a Job has not started; zero if it never is, as it stands.
func WaitsUntil(j *batchv1.Job, after time.Duration) time.Time {
	closed, _ := batch.WindowClosed(&j.Status)
	if s := See(j); s.Started || s.Ended || ptr.Deref(j.Spec.Suspend, false) || closed != nil || j.DeletionTimestamp != nil {
		return time.Time{}
	}
	return waitingSince(j).Add(after)
}

// Waits returns the notice of a Job that has not started, which a CronJob may control.
func Waits(j *batchv1.Job, cronJob string, now time.Time) Notice {
	n := about(j, cronJob, notices.Waits, now)
	n.Message = fmt.Sprintf("It has waited for %s.", duration.HumanDuration(now.Sub(waitingSince(j))))
	return n
}

// CronJobOverdue returns the notice of a CronJob of which no Job has succeeded in time.
func CronJobOverdue(cj *batchv1.CronJob, due, now time.Time) Notice {
	n := Notice{
		ID: newID(cj.UID, "/", notices.Overdue, "/", due.Unix()), Kind: notices.Overdue, At: now,
		Object: Object{Kind: "CronJob", Namespace: cj.Namespace, Name: cj.Name, UID: string(cj.UID)},
		Help:   "jobctl why cronjobs/" + cj.Name + " -n " + cj.Namespace,
	}
	n.Message = overdue(notices.Every(cj.Annotations), cj.Status.LastSuccessfulTime, now)
	if ptr.Deref(cj.Spec.Suspend, false) {
		n.Message += " It is suspended."
	}
	return n
}

// JobsOverdue returns the notice of Jobs of one name of which none has succeeded in time.
func JobsOverdue(namespace, name string, m Memory, now time.Time) Notice {
	n := Notice{
		ID: newID(namespace, "/", name, "/", notices.Overdue, "/", m.Since.UnixNano()), Kind: notices.Overdue, At: now,
		Object: Object{Kind: "Job", Namespace: namespace, Name: name},
		Help:   "jobctl history " + name + " -n " + namespace,
	}
	var last *metav1.Time
	if m.Last != nil {
		last = ptr.To(metav1.NewTime(*m.Last))
	}
	n.Message = overdue(m.Every, last, now)
	return n
}

func overdue(every time.Duration, last *metav1.Time, now time.Time) string {
	text := fmt.Sprintf("No Job has succeeded within %s, as %s expects.", duration.HumanDuration(every), notices.EveryAnnotation)
	if last != nil {
		text += fmt.Sprintf(" The last success was %s ago.", duration.HumanDuration(now.Sub(last.Time)))
	}
	return text
}

// Asked reports whether a user has asked to be told of a notice.
func Asked(n *Notice, w notices.Wanted) bool {
	return w.Wants(n.Kind) || ended(n) && w.Wants(notices.Finished)
}

// ended reports whether a notice is of the end of a Job.
func ended(n *Notice) bool { return n.Result != "" }

// Goes reports whether a receiver is told of a notice, which was asked for by name: as users want it, or, for one that watches
// over the times between start and end, all that it needs for that.
func Goes(n *Notice, r *Receiver, w notices.Wanted) bool {
	switch {
	case !r.Serves(n.Object.Namespace):
		return false
	case r.Healthcheck != nil:
		return ended(n) || n.Kind == notices.Started
	}
	return Asked(n, w)
}
