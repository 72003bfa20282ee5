package workload

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/jobd/jobd/api/kueue"
)

type machine struct{ unfit, lacks string }

func (m machine) Unfit() string { return m.unfit }
func (m machine) Lacks() string {
	if m.unfit != "" {
		return m.unfit
	}
	return m.lacks
}

// Whatever a manager, a Job and the machine do, in any order and with any time between: nothing starts that is not admitted, room is held
// only for what is admitted and has not all of its pods, what has finished stays as it is, and a decision taken twice changes nothing.
func TestDecisions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_700_000_000, 0)
		w := &Workload{Generation: 1, Created: now, Pods: 2}
		if rapid.IntRange(0, 9).Draw(t, "other kind") == 0 {
			w.Refusal = "it is of another kind"
		}
		var j *Job
		ended := false
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "seconds")) * time.Second)
			m := machine{
				unfit: rapid.SampledFrom([]string{"", "", "1 node(s) were unschedulable"}).Draw(t, "unfit"),
				lacks: rapid.SampledFrom([]string{"", "1 Insufficient cpu"}).Draw(t, "lacks"),
			}
			switch rapid.IntRange(0, 7).Draw(t, "what") {
			case 0:
				if j == nil && w.Owner == "" {
					j = &Job{UID: types.UID("j"), Suspended: rapid.Bool().Draw(t, "suspended")}
				}
			case 1:
				w.Inactive = !w.Inactive
			case 2:
				if j != nil && !j.Suspended {
					j.Active, j.Begun = rapid.IntRange(0, w.Pods).Draw(t, "active"), rapid.Bool().Draw(t, "begun")
				}
			case 3:
				if j != nil && !j.Suspended && j.End == nil {
					j.End = &batchv1.JobCondition{Type: rapid.SampledFrom([]batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed}).Draw(t, "end")}
				}
			}
			d := Decide(w, j, m, now)
			is := func(c string) bool { return meta.IsStatusConditionTrue(d.Conditions, c) }
			switch {
			case d.Resume && (!is(kueue.Admitted) || d.Suspend || w.Inactive || w.Refusal != ""):
				t.Fatalf("a Job starts: %+v", d)
			case d.Held && (!is(kueue.Admitted) || j != nil && j.Active >= w.Pods):
				t.Fatalf("room is held: %+v", d)
			case is(kueue.Admitted) && (!is(kueue.QuotaReserved) || is(kueue.Evicted)):
				t.Fatalf("it is admitted and not: %+v", d.Conditions)
			case ended && d.Changed:
				t.Fatalf("it has finished, and changes: %+v", d.Conditions)
			case d.Wake.Before(now) && !d.Wake.IsZero():
				t.Fatalf("it wakes in the past: %v", d.Wake.Sub(now))
			}
			w.Conditions, ended = d.Conditions, is(kueue.Finished)
			if d.Own {
				w.Owner = j.UID
			}
			if d.Suspend {
				j.Suspended, j.Active, j.Begun = true, 0, false
			}
			if d.Resume {
				j.Suspended = false
			}
			if again := Decide(w, j, m, now); again.Changed || again.Resume || again.Suspend || again.Own || again.Held != d.Held && !d.Suspend {
				t.Fatalf("it is decided twice: %+v, then %+v", d, again)
			}
		}
	})
}

// The words are those that a manager copies to its own Workload and Job.
func TestWordsOfAnEnd(t *testing.T) {
	for end, reason := range map[batchv1.JobConditionType]string{batchv1.JobComplete: "Succeeded", batchv1.JobFailed: "Failed"} {
		d := Decide(&Workload{}, &Job{UID: "j", End: &batchv1.JobCondition{Type: end, Message: "why"}}, machine{}, time.Now())
		c := meta.FindStatusCondition(d.Conditions, kueue.Finished)
		if c == nil || c.Status != metav1.ConditionTrue || c.Reason != reason || c.Message != "why" {
			t.Errorf("%s: %+v", end, c)
		}
	}
}

// Whoever writes that a Workload has been admitted, from the year 9999 on, has room held for no longer than others.
func TestAnAdmissionToComeHoldsNoRoom(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for after, held := range map[time.Duration]bool{-time.Minute: true, time.Second: true, -time.Hour: false, 1000 * time.Hour: false} {
		w := &Workload{Generation: 1, Created: now.Add(-2 * time.Hour), Pods: 2, Conditions: []metav1.Condition{{
			Type: kueue.Admitted, Status: metav1.ConditionTrue, Reason: kueue.Admitted, LastTransitionTime: metav1.NewTime(now.Add(after)),
		}}}
		if d := Decide(w, nil, machine{}, now); d.Held != held {
			t.Errorf("admitted in %v: held is %v", after, d.Held)
		}
	}
}
