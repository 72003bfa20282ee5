package job

import (
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func suspend(w *world, to bool) {
	w.edit(func(j *batchv1.Job) { j.Spec.Suspend = &to })
	w.settle()
}

func TestSuspend(t *testing.T) {
	t.Run("removes pods without counting them", func(t *testing.T) {
		w := begin(func(s *batchv1.JobSpec) { s.Parallelism, s.Completions = ptr.To[int32](2), ptr.To[int32](4) })
		suspend(w, true)
		s := &w.job.Status
		if s.Active != 0 || *s.Terminating != 2 || s.StartTime != nil || w.conditions() != "Suspended=True JobSuspended" {
			t.Error(describe(s))
		}
		for _, c := range w.created {
			w.set(c.v.Name, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
		}
		if w.settle(); w.job.Status.Failed != 0 || len(w.pods) != 0 {
			t.Error(describe(&w.job.Status))
		}
		w.pass(time.Minute)
		suspend(w, false)
		if s := &w.job.Status; s.Active != 2 || !s.StartTime.Time.Equal(w.now.Truncate(time.Second)) || w.conditions() != "Suspended=False JobResumed" {
			t.Error(describe(s))
		}
		want := []string{"SuccessfulCreate", "SuccessfulCreate", "SuccessfulDelete", "SuccessfulDelete", "Suspended", "SuccessfulCreate", "SuccessfulCreate", "Resumed"}
		if got := w.reasons(); !slices.Equal(got, want) {
			t.Errorf("events %v", got)
		}
	})
	t.Run("a Job that was never suspended has no such condition", func(t *testing.T) {
		if w := begin(nil); w.conditions() != "" {
			t.Error(w.conditions())
		}
	})
	t.Run("a Job that begins suspended has no start time", func(t *testing.T) {
		w := begin(func(s *batchv1.JobSpec) { s.Suspend = ptr.To(true) })
		if s := &w.job.Status; s.StartTime != nil || len(w.created) > 0 || w.conditions() != "Suspended=True JobSuspended" {
			t.Error(describe(s))
		}
	})
	t.Run("a Job that waits for Kueue says that there is none", func(t *testing.T) {
		job := newJob(func(s *batchv1.JobSpec) { s.Suspend = ptr.To(true) })
		job.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "gpus"}
		w := newWorld(someTime, job)
		w.settle()
		const want = "Job suspended; its label kueue.x-k8s.io/queue-name has no effect, since there is no Kueue in jobd to resume it: set spec.suspend to false"
		if c := w.job.Status.Conditions; len(c) != 1 || c[0].Message != want {
			t.Error(describe(&w.job.Status))
		}
		if len(w.events) != 1 || w.events[0].v.Message != want {
			t.Errorf("events %v", w.events)
		}
	})
	t.Run("nothing happens when it is taken back before it was seen", func(t *testing.T) {
		w := begin(nil)
		w.edit(func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) })
		suspend(w, false)
		if len(w.removed) > 0 || w.conditions() != "" {
			t.Error(w.conditions())
		}
	})
	t.Run("a work queue of which one has succeeded is complete when its other pods are removed", func(t *testing.T) {
		w := begin(func(s *batchv1.JobSpec) { s.Parallelism, s.Completions = ptr.To[int32](2), nil })
		w.end(w.names()[0], 0)
		w.settle()
		if suspend(w, true); w.conditions() != "SuccessCriteriaMet=True CompletionsReached" {
			t.Error(w.conditions())
		}
	})
}
