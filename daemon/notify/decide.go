package notify

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/jobd/jobd/api/notices"
)

const complete = string(batchv1.JobComplete)

// Decide returns what has happened to a Job or JobSet that was seen in one state and now is in another, and what is to be remembered of
// its name, or of the CronJob that controls it, if one does. A retry begins a Job anew; that a JobSet begins its Jobs anew is nothing
// to be told of: its end will be.
func Decide(was Seen, w Work, m Memory, after time.Duration, now time.Time) ([]Notice, Memory) {
	if was.Attempt != w.Attempt {
		was = Seen{}
	}
	var said []Notice
	if w.Started && !was.Started {
		if !w.Ended || w.ran {
			said = append(said, w.notice(notices.Started, now))
		}
		if late := now.Sub(w.due); !w.Ended && late > after {
			n := w.notice(notices.StartedLate, now)
			n.Message = fmt.Sprintf("It has started %s after it was due.", duration.HumanDuration(late))
			said = append(said, n)
		}
	}
	if !w.Ended || was.Ended {
		return said, m
	}
	n := w.notice(notices.Finished, w.end.at)
	n.Result, n.Reason, n.Message = w.end.result, cut(w.end.reason, maxReason), cut(w.end.message, maxMessage)
	if n.Result != complete {
		n.Kind, m.Failed = notices.Failed, true
		return append(said, n), m
	}
	if m.Bad() {
		n.Kind = notices.Recovered
	}
	m.Failed, m.Overdue = false, nil
	if m.Every > 0 {
		m = m.Succeeded(n.At)
	}
	return append(said, n), m
}

// WaitsUntil returns when it is worth a notice that a Job or JobSet has not started; zero if it never is, as it stands.
func (w *Work) WaitsUntil(after time.Duration) time.Time {
	if w.Started || w.Ended || w.heldBack {
		return time.Time{}
	}
	return w.since.Add(after)
}

// Waits returns the notice of a Job or JobSet that has not started.
func (w *Work) Waits(now time.Time) Notice {
	n := w.notice(notices.Waits, now)
	n.Message = fmt.Sprintf("It has waited for %s.", duration.HumanDuration(now.Sub(w.since)))
	return n
}

// Asked reports whether a user has asked to be told of a notice.
func Asked(n *Notice, w notices.Wanted) bool {
	return w.Wants(n.Kind) || ended(n) && w.Wants(notices.Finished)
}

// ended reports whether a notice is of the end of a Job.
func ended(n *Notice) bool { return n.Result != "" }

// Goes reports whether a receiver that was asked for by name is told of a notice. Most are told what users want; one that
// watches the times between start and end is told all that it needs for that.
func Goes(n *Notice, r *Receiver, w notices.Wanted) bool {
	switch {
	case !r.Serves(n.Object.Namespace):
		return false
	case r.Healthcheck != nil:
		return ended(n) || n.Kind == notices.Started
	}
	return Asked(n, w)
}
