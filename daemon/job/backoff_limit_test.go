package job

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
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
