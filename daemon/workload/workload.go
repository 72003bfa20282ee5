// Package workload decides what becomes of a Workload of Kueue on a worker of MultiKueue, which this machine is then.
//
// In come the Workload, the Job that was made for it, what the machine has room for, and the time. Out goes a Decision: the conditions
// that the manager reads, whether room is held, and whether the Job may start.
//
// A manager asks all of its workers at once, takes the first that admits, and withdraws from the others. Its Job comes only then: so room
// is held for pods that are not there yet, and given back if the Job does not come.
package workload

import (
	"cmp"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/api/kueue"
)

const (
	// Patience is how long room is held for a Job that does not come.
	Patience = 5 * time.Minute
	// longestPause is how long a Workload whose Job did not come stays out at most, before room is held for it again.
	longestPause = time.Hour
)

// The reasons for an eviction. That of a deactivation is Kueue's, which adds why.
const (
	deactivated = "Deactivated"
	noNode      = "NodeUnavailable" // it was cordoned or drained, or its disk runs full
	noJob       = "JobDidNotCome"
)

// Workload is what a decision needs of a Workload.
type Workload struct {
	Conditions []metav1.Condition
	Generation int64
	Created    time.Time
	// Inactive says that its manager wants it to be stopped. Refusal is why it can never run here, empty if it can. Pods is how many it has
	// at once.
	Inactive bool
	Refusal  string
	Pods     int
	// Owner is the Job that it belongs to, empty before one came.
	Owner types.UID
}

// Job is what a decision needs of the Job that was made for a Workload.
type Job struct {
	UID                 types.UID
	Suspended, Deleting bool
	// Active is how many pods it has, and Begun says that one of them has been bound.
	Active int
	Begun  bool
	// End is the condition with which it has finished, nil while it goes on.
	End *batchv1.JobCondition
}

// Machine answers questions, and changes nothing.
type Machine interface {
	// Unfit returns why pods of the Workload could not be on the machine even if it were empty, such as that it is cordoned.
	Unfit() string
	// Lacks returns what is missing for all of them, beside what is there and what is held.
	Lacks() string
}

// Decision is what is to be done.
type Decision struct {
	// Conditions are those that the Workload should have, and Changed says that they differ.
	Conditions []metav1.Condition
	Changed    bool
	// Own says that the Workload is to belong to the Job.
	Own bool
	// Suspend and Resume change the Job.
	Suspend, Resume bool
	// Held says whether room is to be held.
	Held bool
	// Watch says that it matters what the machine has room for.
	Watch bool
	// Wake is when to decide again because of the time alone; zero for never.
	Wake   time.Time
	Events []Event
}

// Event is to be recorded about the Workload.
type Event struct{ Type, Reason, Message string }

// Decide decides on a Workload. j is nil as long as there is no Job.
func Decide(w *Workload, j *Job, m Machine, now time.Time) Decision {
	d := decision{w: w, j: j, m: m, now: now}
	for _, c := range w.Conditions {
		d.Conditions = append(d.Conditions, *c.DeepCopy())
	}
	switch {
	case d.is(kueue.Finished):
	case j != nil && j.End != nil && w.Refusal == "":
		d.finish()
	case w.Refusal != "":
		d.pend(w.Refusal)
	case w.Inactive || d.is(kueue.DeactivationTarget):
		d.deactivate()
	case d.is(kueue.Admitted):
		d.goOn()
	default:
		d.wait()
	}
	d.Changed = !equality.Semantic.DeepEqual(d.Conditions, w.Conditions)
	return d.Decision
}

type decision struct {
	Decision
	w   *Workload
	j   *Job
	m   Machine
	now time.Time
}

func (d *decision) is(t string) bool { return meta.IsStatusConditionTrue(d.Conditions, t) }

// since returns since when a condition is as it is. A time to come, which is somebody else's, is none: room would be held until then.
func (d *decision) since(t string) time.Time {
	c := meta.FindStatusCondition(d.Conditions, t)
	switch {
	case c == nil:
		return d.now
	case c.LastTransitionTime.After(d.now.Add(Patience)):
		return d.w.Created
	}
	return c.LastTransitionTime.Time
}

func (d *decision) set(t string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&d.Conditions, metav1.Condition{
		Type: t, Status: status, Reason: reason, Message: conditions.Brief(message), ObservedGeneration: d.w.Generation,
		LastTransitionTime: metav1.NewTime(d.now.Truncate(time.Second)),
	})
}

func (d *decision) event(kind, reason, message string) {
	d.Events = append(d.Events, Event{kind, reason, message})
}

// finish says how the Job has ended, in Kueue's words.
func (d *decision) finish() {
	reason := "Succeeded"
	if d.j.End.Type == batchv1.JobFailed {
		reason = "Failed"
	}
	d.set(kueue.Finished, metav1.ConditionTrue, reason, d.j.End.Message)
	d.Own = d.w.Owner == ""
}

// pend says why there is no room yet.
func (d *decision) pend(why string) {
	if d.is(kueue.Admitted) { // the manager has changed it since
		d.set(kueue.Admitted, metav1.ConditionFalse, "NoReservation", why)
	}
	d.set(kueue.QuotaReserved, metav1.ConditionFalse, "Pending", why)
	d.hold()
}

// hold keeps the Job from running.
func (d *decision) hold() {
	d.Suspend = d.j != nil && d.j.End == nil && !d.j.Suspended && !d.j.Deleting
}

// deactivate stops what the manager wants to be stopped.
func (d *decision) deactivate() {
	reason, message := deactivated, "The workload is deactivated"
	if c := meta.FindStatusCondition(d.Conditions, kueue.DeactivationTarget); c != nil && c.Status == metav1.ConditionTrue {
		reason, message = reason+"DueTo"+c.Reason, cmp.Or(c.Message, message)
	}
	d.evict(reason, message)
}

// evict gives the room back, which tells the manager to look for another worker.
func (d *decision) evict(reason, message string) {
	d.hold()
	if d.is(kueue.Evicted) && !d.is(kueue.Admitted) {
		return
	}
	d.set(kueue.Evicted, metav1.ConditionTrue, reason, message)
	d.set(kueue.Admitted, metav1.ConditionFalse, "NoReservation", "The workload has no reservation")
	d.set(kueue.QuotaReserved, metav1.ConditionFalse, "Pending", message)
	d.event(corev1.EventTypeNormal, kueue.Evicted, message)
}

// goOn lets a Job start whose Workload is admitted, and keeps its room until its pods are there.
func (d *decision) goOn() {
	expires := d.since(kueue.Admitted).Add(Patience)
	begun := d.j != nil && d.j.Begun
	if !begun {
		d.Watch = true
		if unfit := d.m.Unfit(); unfit != "" {
			d.evict(noNode, "The node takes no pods of it: "+unfit)
			return
		}
	}
	if d.j == nil {
		switch {
		case d.w.Owner != "": // the Job is gone, and the Workload goes after it
		case d.now.Before(expires):
			d.Held, d.Wake = true, expires
		default:
			d.evict(noJob, fmt.Sprintf("No Job has come for it in %v", Patience))
			d.Wake = d.comesBack()
		}
		return
	}
	d.Own = d.w.Owner == ""
	d.Resume = d.j.Suspended && !d.j.Deleting
	if !begun && d.j.Active < d.w.Pods && d.now.Before(expires) {
		d.Held, d.Wake = true, expires
	}
}

// comesBack returns when room may be held again for a Workload whose Job did not come: it stays out for as long as it has been there, so
// that what a manager has forgotten takes ever less of the machine.
func (d *decision) comesBack() time.Time {
	evicted := d.since(kueue.Evicted)
	return evicted.Add(min(longestPause, max(Patience, evicted.Sub(d.w.Created))))
}

// wait admits a Workload once there is room for all of its pods.
func (d *decision) wait() {
	d.hold()
	evicted := meta.FindStatusCondition(d.Conditions, kueue.Evicted)
	out := evicted != nil && evicted.Status == metav1.ConditionTrue
	if out && evicted.Reason == noJob && d.j == nil {
		if back := d.comesBack(); d.now.Before(back) {
			d.Wake = back
			return
		}
	}
	d.Watch = true
	if why := d.m.Lacks(); why != "" {
		if !out { // else its conditions say why it was evicted
			d.pend(why)
		}
		return
	}
	d.set(kueue.QuotaReserved, metav1.ConditionTrue, kueue.QuotaReserved, "There is room on this machine")
	if out {
		d.set(kueue.Evicted, metav1.ConditionFalse, kueue.QuotaReserved, "Previously: "+evicted.Message)
	}
	d.set(kueue.Admitted, metav1.ConditionTrue, kueue.Admitted, "The workload is admitted")
	d.event(corev1.EventTypeNormal, kueue.Admitted, fmt.Sprintf("Room is held for %d pods", d.w.Pods))
	d.Suspend = false
	d.goOn()
}
