package job

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/batch"
)

// Paused reports whether the Job is paused: its pods are to be frozen. It follows from what is stored, so that a restart of the
// daemon changes nothing.
func (r *Record) Paused() bool {
	_, paused := batch.PausedSince(&r.status)
	return paused && !r.deleting && !r.Finished()
}

// PausedFor returns for how long the Job was paused since it started, without the pause that it is in.
func (r *Record) PausedFor() time.Duration { return r.pausedFor }

// waitsPaused reports whether the Job is paused before it has begun, or begun anew: it does so when it goes on. Until then it has no
// start time, takes no place in its concurrency group, and does not end.
func (r *Record) waitsPaused() bool {
	return r.status.StartTime == nil && r.spec.paused && !r.spec.suspend && !r.deleting && batch.Ending(&r.status) == nil
}

// pauseOrContinue sets the condition JobPaused according to batch.PausedAnnotation and the Job's window, and adds up for how long the
// Job was paused. A suspended Job is not paused: it has no pods. Nor is one of which it is decided how it ends: what is left of it is to
// be stopped.
func (d *decision) pauseOrContinue() {
	r, now := d.r, *d.time()
	since, paused := batch.PausedSince(&d.next)
	ends := batch.Ending(&r.status) != nil
	asked := r.spec.paused || d.pauses
	switch wanted := asked && !d.suspends && !r.deleting && !ends; {
	case wanted && !paused:
		setCondition(&d.next.Conditions, batch.JobPaused, corev1.ConditionTrue, "JobPaused", "Job paused", now)
		d.forced = true
		d.Events = append(d.Events, Event{corev1.EventTypeNormal, "Paused", "Job paused"})
	case ends && paused:
		d.unpause(since, "JobEnded", "Job ended")
	case !wanted && paused:
		d.unpause(since, "JobContinued", "Job continued")
		if !asked {
			d.Events = append(d.Events, Event{corev1.EventTypeNormal, "Continued", "Job continued"})
		}
	}
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

// deadlineIn returns when spec.activeDeadlineSeconds ends the Job with a status, if it was paused for some time before the pause
// that the status tells of. While it is paused there is none.
func (r *Record) deadlineIn(s *batchv1.JobStatus, pausedFor time.Duration) (time.Time, bool) {
	if _, paused := batch.PausedSince(s); paused {
		return time.Time{}, false
	}
	at, ok := r.deadline(s.StartTime)
	if !ok {
		return time.Time{}, false
	}
	return at.Add(pausedFor), true
}
