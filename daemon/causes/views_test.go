package causes_test

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/causes"
	"github.com/jobd/jobd/daemon/picture"
	"github.com/jobd/jobd/dashboard/terminal"
	"github.com/jobd/jobd/submit/progress"
)

var now = time.Unix(1_700_000_000, 0)

// drawJob makes a Job with any status, also with those that no controller writes.
func drawJob(t *rapid.T) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", Namespace: "n", UID: "u", CreationTimestamp: metav1.NewTime(now)}}
	j.Spec.Completions = ptr.To[int32](3)
	j.Spec.Suspend = rapid.SampledFrom([]*bool{nil, ptr.To(false), ptr.To(true)}).Draw(t, "suspend")
	if rapid.Bool().Draw(t, "deleted") {
		j.DeletionTimestamp = ptr.To(metav1.NewTime(now))
	}
	if rapid.Bool().Draw(t, "started") {
		j.Status.StartTime = ptr.To(metav1.NewTime(now))
	}
	count := rapid.Int32Range(0, 2)
	j.Status.Active, j.Status.Failed, j.Status.Succeeded = count.Draw(t, "active"), count.Draw(t, "failed"), count.Draw(t, "succeeded")
	j.Status.Ready = rapid.SampledFrom([]*int32{nil, ptr.To[int32](0), ptr.To[int32](1)}).Draw(t, "ready")
	for _, kind := range []batchv1.JobConditionType{
		batchv1.JobComplete, batchv1.JobFailed, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet, batchv1.JobSuspended,
	} {
		if status := rapid.SampledFrom([]corev1.ConditionStatus{"", corev1.ConditionFalse, corev1.ConditionTrue}).Draw(t, string(kind)); status != "" {
			j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{
				Type: kind, Status: status, Reason: "Because", LastTransitionTime: metav1.NewTime(now),
			})
		}
	}
	return j
}

// TestOneWordForAState asks every view for the state of the same Job. What the page in the browser says is compared by
// TestStatesInABrowser of daemon/e2e.
func TestOneWordForAState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := drawJob(t)
		want := batch.State(j)
		if said := causes.Job(causes.World{Now: now, Source: why.FromRecords}, j, nil); said.State != want {
			t.Errorf("why says %s instead of %s", said.State, want)
		}
		drawn := picture.Draw(picture.Subject{Job: j}, picture.NewAttempts("j", false), nil, now)
		if drawn.Job.State != want {
			t.Errorf("the picture says %s instead of %s", drawn.Job.State, want)
		}
		if word, _, _ := progress.JobState(j); word != strings.ToLower(want) {
			t.Errorf("submit and report say %s instead of %s", word, want)
		}
		var m progress.Model
		m.SetJob(&batchv1.Job{ObjectMeta: j.ObjectMeta, Spec: batchv1.JobSpec{Suspend: ptr.To(!ptr.Deref(j.Spec.Suspend, false))}}, now)
		for _, e := range m.SetJob(j, now) {
			if e.State != strings.ToLower(want) {
				t.Errorf("an event of submit says %s instead of %s", e.State, want)
			}
		}
		list := terminal.Overview([]batchv1.Job{*j}, 0, now, terminal.Style{Width: 120, Height: 10})
		if !strings.Contains(strings.Join(list, "\n"), want) {
			t.Errorf("watch does not say %s: %q", want, list)
		}
	})
}
