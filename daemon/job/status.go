package job

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/conditions"
)

// smallStatus is the size of index lists up to which each change is written at once.
const smallStatus = 1 << 10

// verdict is why a Job ends: an interim condition with its reason and message.
type verdict struct {
	condition       batchv1.JobConditionType // FailureTarget or SuccessCriteriaMet
	reason, message string
}

func failure(reason, message string) *verdict {
	return &verdict{batchv1.JobFailureTarget, reason, message}
}

// standing returns the verdict that a condition holds, nil for none.
func standing(conditions []batchv1.JobCondition, t batchv1.JobConditionType) *verdict {
	for i := range conditions {
		if c := &conditions[i]; c.Type == t && c.Status == corev1.ConditionTrue {
			return &verdict{t, c.Reason, c.Message}
		}
	}
	return nil
}

// Finished reports whether the Job is Complete or Failed, and so does not change any more.
func (r *Record) Finished() bool { return batch.End(&r.status) != nil }

// writeStatus counts pods and writes the status. With large index lists that is delayed, so that a Job of many indexes
// does not write them all for each of its pods. The pods stay tracked until they are counted, and no start or end of
// anything depends on it.
func (d *decision) writeStatus() {
	r := d.r
	if d.end != nil {
		d.forced = setCondition(&d.next.Conditions, d.end.condition, corev1.ConditionTrue, d.end.reason, d.end.message,
			*d.time()) || d.forced
	}
	d.next.Active = d.active
	// Not pointers to the decision's own: the status is kept, and would keep all of the decision.
	d.next.Ready = ptr.To(d.ready)
	d.next.Terminating = ptr.To(d.terminating)
	d.next.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	// A pod that somebody deletes has failed at once, whatever it ends as, so that must not wait either: not when it is
	// replaced in this very decision.
	d.forced = d.forced || d.end != nil || r.deleting || r.hasty > 0 ||
		slices.ContainsFunc(d.replaced, func(p *pod) bool { return !p.terminal() })
	if due := r.statusDue(d.s); !d.forced && d.now.Before(due) {
		if len(r.at(done)) > 0 || len(d.replaced) > 0 || !sameStatus(&d.next, &r.status) {
			d.wake(due)
		}
		return
	}
	counted, unheld, all := d.count()
	d.writeIndexes()
	if !sameStatus(&d.next, &r.status) {
		d.Status = append(d.Status, d.next)
	}
	m := r.counted.clone()
	for _, p := range counted {
		r.remember(&m, p)
	}
	for _, p := range unheld {
		r.grow(&m, p)
	}
	if !m.equal(&r.counted) {
		d.Memory = &m
	}
	if all && d.end != nil && d.active == 0 && d.terminating == 0 {
		d.finish()
		d.Memory = lastMemory(m)
	}
}

// lastMemory returns what is remembered of a Job that has ended; nil for nothing. No decision needs the back-off any more.
func lastMemory(m Memory) *Memory {
	if len(m.Grown) == 0 {
		return nil
	}
	return &Memory{Grown: m.Grown}
}

// statusDue returns when the status may be written again.
func (r *Record) statusDue(s Settings) time.Time {
	size := len(r.status.CompletedIndexes) + len(ptr.Deref(r.status.FailedIndexes, ""))
	if size <= smallStatus || r.written.IsZero() {
		return time.Time{}
	}
	return r.written.Add(time.Duration(size) * time.Second / time.Duration(s.StatusRate))
}

func (d *decision) writeIndexes() {
	r := d.r
	if !r.spec.indexed {
		return
	}
	d.next.Succeeded = int32(r.completed.Len())
	if r.changedIndexes {
		d.next.CompletedIndexes = r.completed.String()
	}
	if r.spec.perIndex >= 0 && (r.changedIndexes || d.next.FailedIndexes == nil) {
		s := r.failedSet.String()
		d.next.FailedIndexes = &s
	}
}

// finish adds the final condition to the interim one, as a revision of its own.
func (d *decision) finish() {
	last := d.next
	if last.StartTime == nil { // it was suspended, and its pods have failed while they were ended
		last.StartTime = d.time()
	}
	t := batchv1.JobFailed
	if d.end.condition == batchv1.JobSuccessCriteriaMet {
		t = batchv1.JobComplete
		last.CompletionTime = d.time()
		if start := last.StartTime; last.CompletionTime.Before(start) { // the clock was set back
			last.CompletionTime = start
		}
		if n := d.r.spec.completions; n >= 0 && last.Succeeded > n {
			d.Events = append(d.Events, tooManySucceeded())
		}
		d.Events = append(d.Events, completed())
	} else {
		d.Events = append(d.Events, Event{corev1.EventTypeWarning, d.end.reason, d.end.message})
	}
	setCondition(&last.Conditions, t, corev1.ConditionTrue, d.end.reason, d.end.message, *d.time())
	d.Status = append(d.Status, last)
}

// setCondition sets a condition of a Job and reports whether its status is new. One that is absent is as good as False.
// The list that was there is left alone.
func setCondition(list *[]batchv1.JobCondition, t batchv1.JobConditionType, s corev1.ConditionStatus, reason, message string, now metav1.Time) bool {
	c := batchv1.JobCondition{
		Type: t, Status: s, Reason: reason, Message: message,
		LastProbeTime: now, LastTransitionTime: now,
	}
	old := conditions.Find(*list, t)
	if old == nil && s == corev1.ConditionFalse || old != nil && old.Status == s {
		return false
	}
	return conditions.SetCopy(list, c)
}

func sameStatus(a, b *batchv1.JobStatus) bool {
	return a.Active == b.Active && a.Succeeded == b.Succeeded && a.Failed == b.Failed &&
		ptr.Equal(a.Ready, b.Ready) && ptr.Equal(a.Terminating, b.Terminating) &&
		a.CompletedIndexes == b.CompletedIndexes && ptr.Equal(a.FailedIndexes, b.FailedIndexes) &&
		a.StartTime.Equal(b.StartTime) && a.CompletionTime.Equal(b.CompletionTime) &&
		(a.UncountedTerminatedPods == nil) == (b.UncountedTerminatedPods == nil) &&
		slices.EqualFunc(a.Conditions, b.Conditions, func(c, d batchv1.JobCondition) bool {
			return c.Type == d.Type && c.Status == d.Status && c.Reason == d.Reason && c.Message == d.Message &&
				c.LastProbeTime.Equal(&d.LastProbeTime) && c.LastTransitionTime.Equal(&d.LastTransitionTime)
		})
}
