package parents

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
	"github.com/jobd/jobd/daemon/causes"
)

func TestWhyACronJobIsInItsState(t *testing.T) {
	now := time.Date(2026, 6, 1, 11, 3, 30, 0, time.UTC)
	for name, tc := range map[string]struct {
		since time.Time
		last  time.Duration // of lastScheduleTime, from now; 0: none
		edit  func(*batchv1.CronJob)
		want  []string
		not   string
		held  int // how many of its Jobs wait for others
	}{
		"its times are those of its time zone": {
			want: []string{"No Job was started for 2026-06-01 20:03:00 JST yet", "The next time is 2026-06-02 20:03:00 JST"},
		},
		"its schedule was changed after that time": {since: now.Add(-time.Second), not: "No Job was started",
			want: []string{"The next time is 2026-06-02 20:03:00 JST"}},
		"its last time is in the future": {last: 30 * 24 * time.Hour, not: "No Job was started", want: []string{
			"status.lastScheduleTime is in the future", "2026-07-01 20:03:30 JST",
			`jobctl patch cronjobs/c -n n --subresource=status --type=merge -p '{"status":{"lastScheduleTime":"2026-06-01T11:03:30Z"}}'`}},
		"its jitter": {edit: with(batch.JitterAnnotation, "10m"), last: -24 * time.Hour, not: "No Job was started", want: []string{
			"The next time is 2026-06-01 20:03:00 JST, and its Job starts 9m43s after it: jobd.dev/jitter is 10m."}},
		"further schedules": {edit: with(batch.SchedulesAnnotation, "0 21 * * *"), want: []string{
			`Its schedules are "3 20 * * *" and, by jobd.dev/schedules, "0 21 * * *"`, "The next time is 2026-06-01 21:00:00 JST."}},
		"what an annotation cannot say": {edit: with(batch.MissedAnnotation, "some"), want: []string{
			`cannot be followed: metadata.annotations[jobd.dev/missed]: Unsupported value: "some"`}},
		"all that were missed": {edit: func(cj *batchv1.CronJob) {
			with(batch.MissedAnnotation, "all")(cj)
			cj.CreationTimestamp = metav1.NewTime(now.Add(-72 * time.Hour))
		}, want: []string{"No Job was started for 2026-05-30 20:03:00 JST yet. After it come Jobs for the 2 later times that were missed (jobd.dev/missed is all)."}},
		"all that were missed, behind another": {edit: func(cj *batchv1.CronJob) {
			with(batch.MissedAnnotation, "all")(cj)
			cj.CreationTimestamp = metav1.NewTime(now.Add(-72 * time.Hour))
			cj.Spec.ConcurrencyPolicy, cj.Status.Active = batchv1.ForbidConcurrent, []corev1.ObjectReference{{Name: "c-1"}}
		}, want: []string{"since jobs/c-1 still runs and concurrencyPolicy is Forbid. It is made up for once that Job has ended. After it come Jobs for the 2"}},
		"all that were missed, one by one": {edit: func(cj *batchv1.CronJob) {
			with(batch.MissedAnnotation, "all")(cj)
			cj.Spec.JobTemplate.Annotations = map[string]string{core.ConcurrencyGroupAnnotation: "db", core.ConcurrencyPolicyAnnotation: "Replace"}
			cj.Status.Active = []corev1.ObjectReference{{Name: "c-1"}}
		}, want: []string{"since jobs/c-1 still runs, and by the policy of their concurrency group one of them would end"}},
		"too many wait for others": {held: 10, want: []string{
			"since 10 of its Jobs wait for other Jobs, for their window, for a place in their concurrency group or to be continued: no more are started", "jobctl get jobs -n n"}},
		"not too many wait for others": {held: 9, want: []string{"No Job was started for 2026-06-01 20:03:00 JST yet"}, not: "no more are started"},
		"all that were missed, suspended": {edit: func(cj *batchv1.CronJob) {
			with(batch.MissedAnnotation, "all")(cj)
			cj.CreationTimestamp = metav1.NewTime(now.Add(-72 * time.Hour))
			cj.Spec.Suspend = ptr.To(true)
		}, want: []string{"A Job will be started for it and for each of 2 later times once it is resumed, since jobd.dev/missed is all."}},
		"none that were missed": {edit: func(cj *batchv1.CronJob) {
			with(batch.MissedAnnotation, "none")(cj)
			cj.CreationTimestamp = metav1.NewTime(now.Add(-72 * time.Hour))
			cj.Spec.Schedule = "1 20 * * *"
		}, want: []string{
			"it is missed for good: the time within which a Job starts (1m0s) where jobd.dev/missed is none was over before a Job could be started"}},
		"none that were missed, yet": {edit: with(batch.MissedAnnotation, "none"), want: []string{"No Job was started for 2026-06-01 20:03:00 JST yet."}},
	} {
		t.Run(name, func(t *testing.T) {
			cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "n", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}}
			cj.Spec.Schedule, cj.Spec.TimeZone = "3 20 * * *", ptr.To("Asia/Tokyo")
			if tc.edit != nil {
				tc.edit(cj)
			}
			if tc.last != 0 {
				cj.Status.LastScheduleTime = ptr.To(metav1.NewTime(now.Add(tc.last)))
			}
			var said strings.Builder
			var jobs []*batchv1.Job
			for range tc.held {
				j := &batchv1.Job{Spec: batchv1.JobSpec{Suspend: ptr.To(true)}}
				j.Annotations = map[string]string{batch.AfterAnnotation: "prep"}
				jobs = append(jobs, j)
			}
			for _, c := range CronJob(causes.World{Now: now, ScheduledSince: tc.since}, cj, jobs, nil).Causes {
				said.WriteString(c.Message + "\n" + strings.Join(c.Help, "\n") + "\n")
			}
			for _, want := range tc.want {
				if !strings.Contains(said.String(), want) {
					t.Errorf("%s does not say %q", said.String(), want)
				}
			}
			if tc.not != "" && strings.Contains(said.String(), tc.not) {
				t.Errorf("it says %s", said.String())
			}
		})
	}
}

func with(name, value string) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) { cj.Annotations = map[string]string{name: value} }
}
