package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/testdata/oracle"
)

// like reports whether the Job is as it was last recorded by the given time.
func (l *life) like(t float64) bool {
	var want *oracle.Revision
	for i, r := range l.recorded() {
		if r.T <= t {
			want = &l.recorded()[i]
		}
	}
	return want == nil || alike(want, l.view(&l.states[len(l.states)-1]))
}

// recorded returns the distinct states of the recorded Job, each with the most pods that were ready meanwhile.
func (l *life) recorded() []oracle.Revision {
	return l.distinct(l.Counted(func(a, b *oracle.Revision) bool { return alike(a, b) && ptr.Equal(a.Status.Ready, b.Status.Ready) }))
}

func (l *life) distinct(all []oracle.Revision) (distinct []oracle.Revision) {
	for i := range all {
		r := l.view(&all[i])
		if n := len(distinct) - 1; n < 0 || !alike(&distinct[n], r) {
			distinct = append(distinct, *r)
		} else if last := &distinct[n].Status; ptr.Deref(r.Status.Ready, 0) > ptr.Deref(last.Ready, 0) {
			last.Ready = r.Status.Ready
		}
	}
	return distinct
}

// view returns a state without the names of pods.
func (l *life) view(r *oracle.Revision) *oracle.Revision {
	v := *r
	if different[l.Name].terminating && v.Status.Terminating != nil {
		v.Status.Terminating = ptr.To[int32](0)
	}
	v.Status.Conditions = slices.Clone(v.Status.Conditions)
	for i := range v.Status.Conditions {
		c := &v.Status.Conditions[i]
		c.Message = l.unnamed(c.Message)
	}
	return &v
}

// alike compares states of a Job except for ready.
func alike(a, b *oracle.Revision) bool {
	s, q := &a.Status, &b.Status
	return a.Generation == b.Generation && slices.Equal(a.Finalizers, b.Finalizers) &&
		(a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		s.Active == q.Active && s.Succeeded == q.Succeeded && s.Failed == q.Failed &&
		ptr.Equal(s.Terminating, q.Terminating) && (s.Ready == nil) == (q.Ready == nil) &&
		s.CompletedIndexes == q.CompletedIndexes && ptr.Equal(s.FailedIndexes, q.FailedIndexes) &&
		(s.UncountedTerminatedPods == nil) == (q.UncountedTerminatedPods == nil) &&
		(s.StartTime == nil) == (q.StartTime == nil) && (s.CompletionTime == nil) == (q.CompletionTime == nil) &&
		sameConditions(s, q)
}

func sameConditions(s, q *batchv1.JobStatus) bool {
	return slices.EqualFunc(s.Conditions, q.Conditions, func(c, d batchv1.JobCondition) bool {
		return c.Type == d.Type && c.Status == d.Status && c.Reason == d.Reason && c.Message == d.Message
	})
}

func describe(r *oracle.Revision) string {
	s := r.Status
	for i := range s.Conditions {
		s.Conditions[i].LastProbeTime, s.Conditions[i].LastTransitionTime = metav1.Time{}, metav1.Time{}
	}
	data, _ := json.Marshal(s)
	return fmt.Sprintf("%s generation %d %v deleting %v %s", r.Event, r.Generation, r.Finalizers, r.DeletionTimestamp != nil, data)
}

func (l *life) compareStates(t *testing.T) {
	theirs, ours := l.recorded(), l.ours()
	next := 0
	for i := range theirs {
		found := slices.IndexFunc(ours[next:], func(r oracle.Revision) bool {
			return alike(&theirs[i], &r) && ptr.Deref(r.Status.Ready, 0) >= ptr.Deref(theirs[i].Status.Ready, 0)
		})
		if found < 0 && i > 0 && i+1 < len(theirs) && between(&theirs[i-1], &theirs[i], &theirs[i+1]) {
			continue
		}
		if found < 0 {
			t.Errorf("there is no state as at %.3f: %s", theirs[i].T, describe(&theirs[i]))
			return
		}
		for n := range found {
			if r := &ours[next+n]; i == 0 || !between(&theirs[i-1], r, &theirs[i]) {
				t.Errorf("there was no state like this, nor would one lie between: %s", describe(r))
			}
		}
		next += found + 1
	}
	for _, r := range ours[next:] {
		t.Errorf("there it ended before this: %s", describe(&r))
	}
	for _, r := range ours {
		if ptr.Deref(r.Status.Ready, 0) > r.Status.Active {
			t.Errorf("more are ready than active: %s", describe(&r))
		}
	}
	if gone := l.isGone(); gone != (l.Timeline[len(l.Timeline)-1].Event == "DELETED") {
		t.Errorf("gone: %v", gone)
	}
}

// ours returns the distinct states of the Job here.
func (l *life) ours() []oracle.Revision {
	return l.distinct(slices.DeleteFunc(slices.Clone(l.states), func(r oracle.Revision) bool { return r.Event == "DELETED" }))
}

func (l *life) isGone() bool { return l.states[len(l.states)-1].Event == "DELETED" }

// between reports whether a state can come between two others.
func between(a, b, c *oracle.Revision) bool {
	in := func(of func(*batchv1.JobStatus) int32) bool {
		x, y, z := of(&a.Status), of(&b.Status), of(&c.Status)
		return min(x, z) <= y && y <= max(x, z)
	}
	like := func(r *oracle.Revision) bool {
		return r.Generation == b.Generation && (r.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) && sameConditions(&r.Status, &b.Status)
	}
	return (like(a) || like(c)) &&
		in(func(s *batchv1.JobStatus) int32 { return s.Active }) &&
		in(func(s *batchv1.JobStatus) int32 { return s.Succeeded }) &&
		in(func(s *batchv1.JobStatus) int32 { return s.Failed }) &&
		ptr.Deref(b.Status.Terminating, 0) <= max(
			ptr.Deref(a.Status.Terminating, 0)+max(0, a.Status.Active-b.Status.Active), ptr.Deref(c.Status.Terminating, 0),
		)
}
