package notify

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/api/notices"
)

// SeeSet returns the state of a JobSet, of which a pod has run or not. It has one attempt here, however often it begins its Jobs anew.
func SeeSet(js *jobsetv1.JobSet, begun bool) Seen {
	ended := jobset.End(&js.Status) != nil
	return Seen{Started: begun || js.Status.Restarts > 0 || ended, Ended: ended, Attempt: 1}
}

// DecideSet returns what has happened to a JobSet that was seen in one state and now is in another, and what is to be remembered of its
// name. That it begins its Jobs anew is nothing to be told of: its end will be.
func DecideSet(was, is Seen, js *jobsetv1.JobSet, m Memory, after time.Duration, now time.Time) ([]Notice, Memory) {
	var said []Notice
	if is.Started && !was.Started {
		said = append(said, aboutSet(js, notices.Started, now))
		if late := now.Sub(setWaitingSince(js)); !is.Ended && late > after {
			n := aboutSet(js, notices.StartedLate, now)
			n.Message = fmt.Sprintf("It has started %s after it was due.", duration.HumanDuration(late))
			said = append(said, n)
		}
	}
	if !is.Ended || was.Ended {
		return said, m
	}
	end := jobset.End(&js.Status)
	n := aboutSet(js, notices.Finished, end.LastTransitionTime.Time)
	n.Reason, n.Message = cut(end.Reason, maxReason), cut(end.Message, maxMessage)
	if end.Type == string(jobsetv1.JobSetFailed) {
		n.Kind, n.Result, m.Failed = notices.Failed, string(batchv1.JobFailed), true
		return append(said, n), m
	}
	n.Result = complete
	if m.Bad() {
		n.Kind = notices.Recovered
	}
	m.Failed = false
	return append(said, n), m
}

// aboutSet returns a notice about a JobSet. One of a kind is sent, and one for its end, whatever that is.
func aboutSet(js *jobsetv1.JobSet, kind notices.Kind, at time.Time) Notice {
	part := string(kind)
	if kind == notices.Finished {
		part = "end"
	}
	return Notice{
		ID: newID(js.UID, "/", part), Kind: kind, Attempt: 1, At: at,
		Object: Object{Kind: "JobSet", Namespace: js.Namespace, Name: js.Name, UID: string(js.UID)},
		Help:   "jobctl why jobsets/" + js.Name + " -n " + js.Namespace,
	}
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

// SetWaitsUntil returns when it is worth a notice that a JobSet has not started; zero if it never is, as it stands.
func SetWaitsUntil(js *jobsetv1.JobSet, seen Seen, after time.Duration) time.Time {
	if seen.Started || seen.Ended || jobset.Suspended(js) || js.DeletionTimestamp != nil {
		return time.Time{}
	}
	return setWaitingSince(js).Add(after)
}

// SetWaits returns the notice of a JobSet that has not started.
func SetWaits(js *jobsetv1.JobSet, now time.Time) Notice {
	n := aboutSet(js, notices.Waits, now)
	n.Message = fmt.Sprintf("It has waited for %s.", duration.HumanDuration(now.Sub(setWaitingSince(js))))
	return n
}
