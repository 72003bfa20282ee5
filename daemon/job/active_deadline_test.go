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
