package job

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/clusters"
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
	came := metav1.NewTime(end.Add(time.Hour))
	late := finished(batchv1.JobComplete, ptr.To[int32](5))
	late.Spec.ManagedBy = ptr.To(clusters.Manager("prod"))
	late.Annotations = map[string]string{clusters.RecordAnnotation: clusters.Record{Came: &came}.Annotation()}
	deleted := finished(batchv1.JobComplete, ptr.To[int32](5))
	deleted.DeletionTimestamp = &metav1.Time{Time: end}
	cases := map[string]struct {
		job  *batchv1.Job
		want time.Time
	}{
		"a complete Job, its TTL after the end": {finished(batchv1.JobComplete, ptr.To[int32](5)), end.Add(5 * time.Second)},
		"a failed Job as well":                  {finished(batchv1.JobFailed, ptr.To[int32](5)), end.Add(5 * time.Second)},
		"0 means at once":                       {finished(batchv1.JobFailed, ptr.To[int32](0)), end},
		"from when it is known that it ended":   {late, came.Add(5 * time.Second)},
		"without a TTL never":                   {finished(batchv1.JobComplete, nil), time.Time{}},
		"not yet, while pods still terminate":   {finished(batchv1.JobFailureTarget, ptr.To[int32](5)), time.Time{}},
		"not again, once it is being deleted":   {deleted, time.Time{}},
		"a running Job never":                   {&batchv1.Job{Spec: batchv1.JobSpec{TTLSecondsAfterFinished: ptr.To[int32](5)}}, time.Time{}},
	}
	for rule, c := range cases {
		t.Run(rule, func(t *testing.T) {
			got, ok := TTL{}.Expires(c.job)
			if !got.Equal(c.want) || ok == c.want.IsZero() {
				t.Errorf("got %v %v, want %v", got, ok, c.want)
			}
		})
	}
}

// The settings decide only about Jobs that neither say it themselves nor belong to somebody who removes them.
func TestTTLOfTheSettings(t *testing.T) {
	end := time.Unix(1000, 0)
	settings := TTL{Complete: time.Hour, Failed: 24 * time.Hour}
	finished := func(kind batchv1.JobConditionType, change func(*batchv1.Job)) *batchv1.Job {
		j := &batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{
			{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(end)},
		}}}
		if change != nil {
			change(j)
		}
		return j
	}
	owned := func(kind string, controls bool) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "c", Controller: ptr.To(controls)}}
		}
	}
	for rule, c := range map[string]struct {
		ttl     TTL
		job     *batchv1.Job
		want    time.Time
		setting string
	}{
		"a complete Job":                     {settings, finished(batchv1.JobComplete, nil), end.Add(time.Hour), "job-ttl"},
		"a failed Job":                       {settings, finished(batchv1.JobFailed, nil), end.Add(24 * time.Hour), "failed-job-ttl"},
		"0 keeps it":                         {TTL{Failed: time.Hour}, finished(batchv1.JobComplete, nil), time.Time{}, ""},
		"one setting is not the other":       {TTL{Complete: time.Hour}, finished(batchv1.JobFailed, nil), time.Time{}, ""},
		"a Job that runs":                    {settings, &batchv1.Job{}, time.Time{}, ""},
		"a Job that is about to end":         {settings, finished(batchv1.JobFailureTarget, nil), time.Time{}, ""},
		"a Job of a CronJob":                 {settings, finished(batchv1.JobComplete, owned("CronJob", true)), time.Time{}, ""},
		"a Job of another controller":        {settings, finished(batchv1.JobComplete, owned("Workflow", true)), time.Time{}, ""},
		"one that somebody else merely owns": {settings, finished(batchv1.JobComplete, owned("ConfigMap", false)), end.Add(time.Hour), "job-ttl"},
		"its own TTL comes first, also a longer one": {settings, finished(batchv1.JobComplete, func(j *batchv1.Job) {
			j.Spec.TTLSecondsAfterFinished = ptr.To[int32](7200)
		}), end.Add(2 * time.Hour), ""},
		"what is being deleted": {settings, finished(batchv1.JobComplete, func(j *batchv1.Job) {
			j.DeletionTimestamp = &metav1.Time{Time: end}
		}), time.Time{}, "job-ttl"},
	} {
		t.Run(rule, func(t *testing.T) {
			got, ok := c.ttl.Expires(c.job)
			_, setting := c.ttl.Of(c.job)
			if !got.Equal(c.want) || ok == c.want.IsZero() || setting != c.setting {
				t.Errorf("got %v %v %q, want %v %q", got, ok, setting, c.want, c.setting)
			}
		})
	}
}
