package job

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestBackoffLimit(t *testing.T) {
	for name, c := range map[string]struct {
		policy   corev1.RestartPolicy
		limit    int32
		failures int32 // failed pods, or restarts of one
		fails    bool
	}{
		"no failure is too many for none":          {corev1.RestartPolicyNever, 0, 0, false},
		"one failed pod is too many for limit 0":   {corev1.RestartPolicyNever, 0, 1, true},
		"as many failed pods as the limit may be":  {corev1.RestartPolicyNever, 2, 2, false},
		"one failed pod more than the limit":       {corev1.RestartPolicyNever, 2, 3, true},
		"one restart is too many for limit 0":      {corev1.RestartPolicyOnFailure, 0, 1, true},
		"one restart is too many for limit 1":      {corev1.RestartPolicyOnFailure, 1, 1, true},
		"fewer restarts than the limit may be":     {corev1.RestartPolicyOnFailure, 3, 2, false},
		"as many restarts as the limit":            {corev1.RestartPolicyOnFailure, 3, 3, true},
		"restarts do not count with policy Never":  {corev1.RestartPolicyNever, 3, 0, false},
		"no restart is too many for OnFailure's 0": {corev1.RestartPolicyOnFailure, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := begin(func(s *batchv1.JobSpec) {
				s.Template.Spec.RestartPolicy, s.BackoffLimit = c.policy, &c.limit
			})
			if c.policy == corev1.RestartPolicyOnFailure {
				w.set(w.names()[0], func(p *corev1.Pod) {
					p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "i", RestartCount: c.failures}}
				})
				w.settle()
			} else {
				for range c.failures {
					w.end(w.names()[0], 1)
					w.settle()
					w.pass(time.Hour)
				}
			}
			failed := standing(w.job.Status.Conditions, batchv1.JobFailureTarget)
			if (failed != nil) != c.fails {
				t.Errorf("conditions %s", w.conditions())
			}
			if c.fails && (failed.reason != "BackoffLimitExceeded" || len(w.names()) > 0) {
				t.Errorf("reason %s, %d pods left", failed.reason, len(w.names()))
			}
		})
	}
}

func TestAWholeJobFailsAtOnce(t *testing.T) {
	w := begin(func(s *batchv1.JobSpec) {
		s.Parallelism, s.Completions, s.BackoffLimit = ptr.To[int32](3), ptr.To[int32](3), ptr.To[int32](0)
	})
	names := w.names()
	w.end(names[0], 1)
	w.settle()
	if s := &w.job.Status; s.Failed != 3 || s.Active != 0 || *s.Terminating != 2 || w.conditions() != "FailureTarget=True BackoffLimitExceeded" {
		t.Fatal(describe(s))
	}
	w.end(names[1], 0) // it counts as failed already
	w.end(names[2], 1)
	w.settle()
	if s := &w.job.Status; s.Failed != 3 || s.Succeeded != 0 || !w.record.Finished() || s.CompletionTime != nil {
		t.Fatal(describe(s))
	}
	if n := len(w.revisions); w.revisions[n-2].Failed != 3 || *w.revisions[n-2].Terminating != 0 || len(w.revisions[n-2].Conditions) != 1 {
		t.Errorf("the final condition is not a revision of its own: %s", describe(&w.revisions[n-2].JobStatus))
	}
}

func TestAPodThatTerminatesAlreadyFailsWithItsJob(t *testing.T) {
	w := begin(func(s *batchv1.JobSpec) {
		s.Parallelism, s.Completions, s.BackoffLimit = ptr.To[int32](2), ptr.To[int32](2), ptr.To[int32](0)
		s.PodReplacementPolicy = ptr.To(batchv1.Failed)
	})
	names := w.names()
	w.deletePod(names[0])
	w.end(names[1], 1)
	if w.settle(); w.job.Status.Failed != 2 || *w.job.Status.Terminating != 1 || tracked(w.pods[names[0]]) {
		t.Error(describe(&w.job.Status))
	}
}
