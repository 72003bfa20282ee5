package job

import (
	"math"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"
)

func TestActiveDeadline(t *testing.T) {
	deadline := func(seconds int64) func(*batchv1.JobSpec) {
		return func(s *batchv1.JobSpec) { s.ActiveDeadlineSeconds = &seconds }
	}
	t.Run("of zero seconds ends a Job before it makes a pod", func(t *testing.T) {
		w := begin(deadline(0))
		if len(w.created) > 0 || w.conditions() != "FailureTarget=True DeadlineExceeded, Failed=True DeadlineExceeded" {
			t.Errorf("%d pods, %s", len(w.created), w.conditions())
		}
	})
	t.Run("counts from the start time", func(t *testing.T) {
		w := begin(deadline(5))
		if want := w.job.Status.StartTime.Add(5 * time.Second); !w.wake.Equal(want) {
			t.Errorf("wakes at %v, want %v", w.wake, want)
		}
	})
	t.Run("wins over waiting for a back-off", func(t *testing.T) {
		w := begin(deadline(5))
		w.end(w.names()[0], 1)
		w.settle()
		if w.pass(6 * time.Second); w.conditions() != "FailureTarget=True DeadlineExceeded, Failed=True DeadlineExceeded" {
			t.Error(w.conditions())
		}
	})
	t.Run("does not count while suspended, and starts anew", func(t *testing.T) {
		w := begin(deadline(5))
		w.pass(3 * time.Second)
		w.edit(func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) })
		w.settle()
		w.pass(time.Hour)
		w.edit(func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(false) })
		w.settle()
		if w.pass(4 * time.Second); w.record.Finished() || w.conditions() != "Suspended=False JobResumed" {
			t.Error(w.conditions())
		}
	})
	t.Run("does not end a Job that is suspended in time, even if that is seen late", func(t *testing.T) {
		w := begin(deadline(5))
		w.edit(func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) })
		w.now = w.now.Add(time.Minute)
		if w.settle(); w.conditions() != "Suspended=True JobSuspended" {
			t.Error(w.conditions())
		}
	})
	t.Run("may be changed while it runs", func(t *testing.T) {
		w := begin(deadline(5))
		w.edit(func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = ptr.To[int64](3600) })
		w.settle()
		if w.pass(time.Minute); len(w.job.Status.Conditions) > 0 {
			t.Error(w.conditions())
		}
	})
	t.Run("may be longer than any time", func(t *testing.T) {
		w := begin(deadline(math.MaxInt64))
		if w.wake.Before(w.now) || len(w.job.Status.Conditions) > 0 {
			t.Errorf("wakes at %v, %s", w.wake, w.conditions())
		}
	})
}
