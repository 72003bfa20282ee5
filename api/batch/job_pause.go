package batch

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/api/podspec"
)

const (
	// PausedAnnotation pauses a Job for as long as it is there: a time in RFC3339, with a fraction if need be, which is when
	// somebody has asked for that. "jobctl pause" sets it to the current time, and "jobctl continue" removes it. The containers of
	// the Job's pods are frozen, no pods are created, and deadlines and probes stand still.
	PausedAnnotation = "jobd.dev/paused-at"
	// PausedForAnnotation is for how long a Job was paused since it started (JobStatus.StartTime), without the pause that
	// JobPaused tells of. jobd writes it: what clients send is ignored, as for the status.
	PausedForAnnotation = "jobd.dev/paused-for"
	// JobPaused is the condition of a Job of which something is paused. Its transition is when jobd has paused it, from which on the
	// deadline stands still. Its reason says who has: PausedByUser, or else pods of a higher priority (core.PreemptByAnnotation).
	JobPaused batchv1.JobConditionType = "jobd.dev/Paused"
)

// Reasons of JobPaused while it is True.
const (
	PausedByUser  = "JobPaused"     // PausedAnnotation, or its window: all of it is paused, and it gets no pods
	Preempted     = "Preempted"     // all of its pods are displaced (core.PodDisplaced)
	PodsPreempted = "PodsPreempted" // some of them are
)

// Paused reports whether the annotations of a Job ask for a pause.
func Paused(annotations map[string]string) bool {
	_, ok := annotations[PausedAnnotation]
	return ok
}

// PausedBy returns the reason for which a Job is paused; empty if it is not.
func PausedBy(s *batchv1.JobStatus) string {
	if c := conditions.Find(s.Conditions, JobPaused); c != nil && c.Status == "True" {
		return c.Reason
	}
	return ""
}

// PausedSince returns since when the deadline of a Job stands still, since it or some of its pods are paused; false if it does not.
func PausedSince(s *batchv1.JobStatus) (time.Time, bool) {
	c := conditions.Find(s.Conditions, JobPaused)
	if c == nil || c.Status != "True" {
		return time.Time{}, false
	}
	return c.LastTransitionTime.Time, true
}

// PausedFor returns for how long a Job was paused since it started, without the pause that it is in.
func PausedFor(annotations map[string]string) time.Duration {
	text, ok := annotations[PausedForAnnotation]
	if !ok {
		return 0
	}
	d, _ := time.ParseDuration(text)
	return max(0, d)
}

// PausedUntil returns for how long a Job was paused since it started, until a time, with the pause that it is in.
func PausedUntil(j *batchv1.Job, t time.Time) time.Duration {
	all := PausedFor(j.Annotations)
	if since, paused := PausedSince(&j.Status); paused && j.Status.StartTime != nil {
		all += max(0, t.Sub(since))
	}
	return all
}

// ValidatePaused checks the annotation where it differs from that of the Job so far.
func ValidatePaused(annotations, old map[string]string, path *field.Path) field.ErrorList {
	value, ok := annotations[PausedAnnotation]
	was, had := old[PausedAnnotation]
	if !ok || had && value == was {
		return nil
	}
	path = path.Key(PausedAnnotation)
	switch at, err := time.Parse(time.RFC3339Nano, value); {
	case err != nil:
		return field.ErrorList{field.Invalid(path, value, `must be a time such as "2006-01-02T15:04:05Z"`)}
	case time.Until(at) > clockSkew:
		return field.ErrorList{field.Invalid(path, value, "must not be in the future: a Job is paused at once")}
	}
	return nil
}

// keepWritten keeps the annotations of a Job that clients do not write: AttemptsAnnotation, which only the subresource retry
// changes, MovingAnnotation, which only move does, PausedForAnnotation, and clusters.OverflowedAnnotation.
func keepWritten(job, old *batchv1.Job) {
	for _, name := range []string{AttemptsAnnotation, MovingAnnotation, PausedForAnnotation, clusters.OverflowedAnnotation} {
		if was, ok := old.Annotations[name]; ok {
			metav1.SetMetaDataAnnotation(&job.ObjectMeta, name, was)
		} else {
			delete(job.Annotations, name)
		}
	}
}

// Deadline returns when spec.activeDeadlineSeconds ends a Job as it stands; false if nothing is known to end it: it has no deadline,
// has not started, or is suspended or paused.
func Deadline(j *batchv1.Job) (time.Time, bool) {
	if _, paused := PausedSince(&j.Status); paused || ptr.Deref(j.Spec.Suspend, false) || j.Spec.ActiveDeadlineSeconds == nil || j.Status.StartTime == nil {
		return time.Time{}, false
	}
	return j.Status.StartTime.Add(podspec.Seconds(*j.Spec.ActiveDeadlineSeconds)).Add(PausedFor(j.Annotations)), true
}
