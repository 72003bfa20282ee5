package job

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"
)

func TestPodReplacementPolicy(t *testing.T) {
	t.Run("TerminatingOrFailed replaces a pod while it terminates", func(t *testing.T) {
		w := begin(nil)
		w.deletePod(w.names()[0])
		if w.settle(); w.job.Status.Failed != 1 || *w.job.Status.Terminating != 1 {
			t.Error(describe(&w.job.Status))
		}
		if w.pass(10 * time.Second); len(w.created) != 2 {
			t.Errorf("%d pods created", len(w.created))
		}
	})
	t.Run("and it stays failed though it ends well", func(t *testing.T) {
		w := begin(nil)
		name := w.names()[0]
		w.deletePod(name)
		w.settle()
		w.end(name, 0)
		if w.settle(); w.job.Status.Failed != 1 || w.job.Status.Succeeded != 0 || len(w.pods) != 0 {
			t.Error(describe(&w.job.Status))
		}
	})
	failed := func(s *batchv1.JobSpec) { s.PodReplacementPolicy = ptr.To(batchv1.Failed) }
	t.Run("Failed waits until the pod has ended", func(t *testing.T) {
		w := begin(failed)
		name := w.names()[0]
		w.deletePod(name)
		w.settle()
		if w.pass(time.Hour); w.job.Status.Failed != 0 || *w.job.Status.Terminating != 1 || len(w.created) != 1 {
			t.Error(describe(&w.job.Status))
		}
		w.end(name, 1)
		w.settle()
		if w.pass(10 * time.Second); w.job.Status.Failed != 1 || len(w.created) != 2 {
			t.Error(describe(&w.job.Status))
		}
	})
	t.Run("Failed counts a success for what it is", func(t *testing.T) {
		w := begin(failed)
		name := w.names()[0]
		w.deletePod(name)
		w.settle()
		w.end(name, 0)
		if w.settle(); w.job.Status.Succeeded != 1 || !w.record.Finished() {
			t.Error(describe(&w.job.Status))
		}
	})
	t.Run("Failed keeps the index of a terminating pod", func(t *testing.T) {
		w := begin(func(s *batchv1.JobSpec) { indexed(3, 2)(s); failed(s) })
		w.deletePod(w.names()[0])
		if w.settle(); len(w.created) != 2 {
			t.Errorf("%d pods created", len(w.created))
		}
	})
	t.Run("may be changed while a pod terminates", func(t *testing.T) {
		w := begin(failed)
		w.deletePod(w.names()[0])
		w.settle()
		w.edit(func(j *batchv1.Job) { j.Spec.PodReplacementPolicy = ptr.To(batchv1.TerminatingOrFailed) })
		if w.settle(); w.job.Status.Failed != 1 {
			t.Error(describe(&w.job.Status))
		}
	})
}
