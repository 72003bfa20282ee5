package job

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/api/core"
)

// Paused reports whether the Job is paused as a whole: its pods are to be frozen. It follows from what is stored, so that a restart of
// the daemon changes nothing.
func (r *Record) Paused() bool {
	return batch.PausedBy(&r.status) == batch.PausedByUser && !r.deleting && !r.Finished()
}

// PausedFor returns for how long the Job was paused since it started, without the pause that it is in.
func (r *Record) PausedFor() time.Duration { return r.pausedFor }

// Stands reports whether the deadline of the Job stands still, since it or some of its pods are paused, by what is stored.
func (r *Record) Stands() bool {
	return batch.PausedBy(&r.status) != "" && !r.deleting && !r.Finished()
}

// waitsPaused reports whether the Job is paused before it has begun, or begun anew: it does so when it goes on. Until then it has no
// start time, takes no place in its concurrency group, and does not end.
func (r *Record) waitsPaused() bool {
	return r.status.StartTime == nil && r.spec.paused && !r.spec.suspend && !r.deleting && batch.Ending(&r.status) == nil
}

// pauseOrContinue sets the condition JobPaused, and adds up for how long the Job was paused: according to batch.PausedAnnotation and the
// Job's window, or since pods of it are displaced by others of a higher priority. A suspended Job is not paused: it has no pods. Nor is
// one of which it is decided how it ends: what is left of it is to be stopped.
func (d *decision) pauseOrContinue() {
	was, by := batch.PausedBy(&d.next), d.pausedBy()
	if was == batch.Preempted {
		was = batch.PodsPreempted
	}
	since, _ := batch.PausedSince(&d.next)
	switch ends := batch.Ending(&d.r.status) != nil; {
	case by == was:
		return
	case ends: // by is empty
		d.unpause(since, "JobEnded", "Job ended")
		return
	case by == "":
		d.unpause(since, "JobContinued", "Job continued")
	default:
		d.pause(by)
	}
	switch {
	case by == batch.PausedByUser:
		d.Events = append(d.Events, Event{corev1.EventTypeNormal, "Paused", "Job paused"})
	case was == batch.PausedByUser && !d.asksForPause():
		d.Events = append(d.Events, Event{corev1.EventTypeNormal, "Continued", "Job continued"})
	case was == "":
		d.Events = append(d.Events, Event{
			corev1.EventTypeNormal, batch.PodsPreempted, "Pods are paused for others of a higher priority (" + core.PreemptByAnnotation + ")",
		})
	case by == "" && d.r.active > 0:
		d.Events = append(d.Events, Event{corev1.EventTypeNormal, "Continued", "No pod is paused for others any more"})
	}
}

// countDisplaced finds out whether all of the pods that the Job has now are displaced, or some.
func (d *decision) countDisplaced() {
	by := batch.PodsPreempted
	if d.r.displaced == d.active {
		by = batch.Preempted
	}
	if was := batch.PausedBy(&d.next); was != by && (was == batch.Preempted || was == batch.PodsPreempted) {
		d.pause(by)
	}
}

// asksForPause reports whether somebody, or the window, asks for a pause of all of the Job.
func (d *decision) asksForPause() bool { return d.r.spec.paused || d.pauses }

// pausedBy returns the reason of JobPaused as it is to be, empty if nothing of the Job is paused.
func (d *decision) pausedBy() string {
	switch r := d.r; {
	case d.suspends || r.deleting || batch.Ending(&r.status) != nil:
		return ""
	case d.asksForPause():
		return batch.PausedByUser
	case r.displaced > 0:
		return batch.PodsPreempted
	}
	return ""
}

var pauseMessages = map[string]string{
	batch.PausedByUser:  "Job paused",
	batch.Preempted:     "All pods are paused for others of a higher priority",
	batch.PodsPreempted: "Some pods are paused for others of a higher priority",
}

// pause begins a pause, or goes on with one for another reason.
func (d *decision) pause(by string) {
	c := batchv1.JobCondition{
		Type: batch.JobPaused, Status: corev1.ConditionTrue, Reason: by, Message: pauseMessages[by],
		LastProbeTime: *d.time(), LastTransitionTime: *d.time(),
	}
	if since, paused := batch.PausedSince(&d.next); paused {
		c.LastTransitionTime.Time = since
	}
	conditions.SetCopy(&d.next.Conditions, c)
	d.forced = true
}

// unpause ends a pause. What was before the start does not count.
func (d *decision) unpause(since time.Time, reason, message string) {
	setCondition(&d.next.Conditions, batch.JobPaused, corev1.ConditionFalse, reason, message, *d.time())
	if d.next.StartTime != nil {
		d.pausedFor += max(0, d.time().Sub(since))
	}
	d.forced = true
}

// endPause ends the pause of a Job that ends: what is left of it is to be stopped.
func (d *decision) endPause() {
	if since, paused := batch.PausedSince(&d.next); paused && d.end != nil {
		d.unpause(since, "JobEnded", "Job ended")
	}
}
