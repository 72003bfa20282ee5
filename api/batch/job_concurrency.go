package batch

import (
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/core"
)

// Reasons with which Jobs of a concurrency group end as failed (core.ConcurrencyPolicyAnnotation).
const (
	ReasonConcurrencyReplaced  = "ConcurrencyReplaced"
	ReasonConcurrencyForbidden = "ConcurrencyForbidden"
)

// Placed reports whether a Job has begun and not ended, so that it has a place in its group if it is in one.
func Placed(j *batchv1.Job) bool {
	s := &j.Status
	return End(s) == nil && managedHere(j) && (s.Active > 0 || ptr.Deref(s.Terminating, 0) > 0 || s.StartTime != nil)
}

// Unplaced reports whether a Job would begin now, if its group had a place for it. One that is suspended or paused, or waits for its
// window, would not, so it waits for none.
func Unplaced(j *batchv1.Job) bool {
	closed, _ := WindowClosed(&j.Status)
	return closed == nil && End(&j.Status) == nil && Ending(&j.Status) == nil && !Placed(j) && !ptr.Deref(j.Spec.Suspend, false) && !Paused(j.Annotations) &&
		j.DeletionTimestamp == nil && managedHere(j)
}

// HeldBack reports whether jobd holds a Job back before it starts, for whatever reason: other Jobs are to end first (AfterAnnotation), the
// group that it or its namespace names has no place for it, it is outside of its window, or it is paused. Nothing else keeps one from
// beginning in the pass in which it comes.
func HeldBack(j *batchv1.Job) bool {
	if Awaits(j) {
		return true
	}
	return !Placed(j) && End(&j.Status) == nil && Ending(&j.Status) == nil && !ptr.Deref(j.Spec.Suspend, false) && j.DeletionTimestamp == nil &&
		managedHere(j)
}

// managedHere reports whether no other controller manages a Job (JobSpec.ManagedBy).
func managedHere(j *batchv1.Job) bool { return clusters.ManagedHere(j) }

// GroupShown is what a table says of a Job that waits for a place in a group.
func GroupShown(name string) string { return "Group:" + name }

// groupShown is what a table says of a Job that waits for a place in the group that it names; empty if it does not.
func groupShown(j *batchv1.Job) string {
	if c, ok := core.ConcurrencyOf(j.Annotations); ok && Unplaced(j) {
		return GroupShown(c.Group)
	}
	return ""
}
