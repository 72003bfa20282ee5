package ttl

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestExpires(t *testing.T) {
	end := time.Unix(1000, 0)
	finished := func(kind batchv1.JobConditionType, ttl *int32) *batchv1.Job {
		return &batchv1.Job{
			Spec: batchv1.JobSpec{TTLSecondsAfterFinished: ttl},
			Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{
				{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(end)},
			}},
		}
	}
	deleted := finished(batchv1.JobComplete, ptr.To[int32](5))
	deleted.DeletionTimestamp = &metav1.Time{Time: end}
	cases := map[string]struct {
		job  *batchv1.Job
		want time.Time
	}{
		"a complete Job, its TTL after the end": {finished(batchv1.JobComplete, ptr.To[int32](5)), end.Add(5 * time.Second)},
		"a failed Job as well":                  {finished(batchv1.JobFailed, ptr.To[int32](5)), end.Add(5 * time.Second)},
		"0 means at once":                       {finished(batchv1.JobFailed, ptr.To[int32](0)), end},
		"without a TTL never":                   {finished(batchv1.JobComplete, nil), time.Time{}},
		"not yet, while pods still terminate":   {finished(batchv1.JobFailureTarget, ptr.To[int32](5)), time.Time{}},
		"not again, once it is being deleted":   {deleted, time.Time{}},
		"a running Job never":                   {&batchv1.Job{Spec: batchv1.JobSpec{TTLSecondsAfterFinished: ptr.To[int32](5)}}, time.Time{}},
	}
	for rule, c := range cases {
		t.Run(rule, func(t *testing.T) {
			got, ok := Expires(c.job)
			if !got.Equal(c.want) || ok == c.want.IsZero() {
				t.Errorf("got %v %v, want %v", got, ok, c.want)
			}
		})
	}
}
