package main

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
)

func TestGroupsOfJobs(t *testing.T) {
	n := 0
	job := func(namespace, name, group, limit string, change func(*batchv1.Job)) batchv1.Job {
		n++
		j := batchv1.Job{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(time.Unix(int64(1000-n), 0)), Annotations: map[string]string{},
		}}
		if group != "" {
			j.Annotations[core.ConcurrencyGroupAnnotation], j.Annotations[core.ConcurrencyLimitAnnotation] = group, limit
		}
		if change != nil {
			change(&j)
		}
		return j
	}
	runs := func(j *batchv1.Job) { j.Status.StartTime, j.Status.Active = ptr.To(metav1.Now()), 1 }
	jobs := []batchv1.Job{
		job("a", "late", "db", "2", nil), job("a", "early", "db", "3", nil), job("a", "r", "db", "2", runs),
		job("a", "over", "db", "1", func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		}),
		job("a", "suspended", "db", "1", func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) }),
		job("a", "paused", "db", "1", func(j *batchv1.Job) { j.Annotations[batch.PausedAnnotation] = "2026-11-27T06:00:00Z" }),
		job("a", "none", "", "", runs), job("b", "of-all", "", "", runs), job("b", "of-another", "x", "1", nil),
	}
	for i := range 7 {
		jobs = append(jobs, job("b", strings.Repeat("w", i+1), "x", "1", nil))
	}
	groups := groupsOf(jobs, map[string]core.Concurrency{"a": {}, "b": {Group: "b", Limit: 4}})
	var out strings.Builder
	if err := printGroups(&out, groups, true); err != nil {
		t.Fatal(err)
	}
	want := `NAMESPACE   GROUP   LIMIT   RUNNING   WAITING   JOBS
a           db      2       1         2         r, then early,late
b           b       4       1         0         of-all
b           x       1       0         8         then wwwwwww,wwwwww,wwwww,wwww,www,+3
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
