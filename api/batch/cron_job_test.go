package batch

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/notices"
)

func newCronJob(edit func(*batchv1.CronJob)) *batchv1.CronJob {
	cj := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "n", ResourceVersion: "1"},
		Spec: batchv1.CronJobSpec{Schedule: "*/5 * * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "busybox"}},
			}},
		}}},
	}
	if edit != nil {
		edit(cj)
	}
	setCronJobDefaults(cj)
	return cj
}

func TestCronJobDefaults(t *testing.T) {
	cj := newCronJob(nil)
	prepareCronJob(cj)
	s := cj.Spec
	if s.ConcurrencyPolicy != batchv1.AllowConcurrent || *s.Suspend || *s.SuccessfulJobsHistoryLimit != 3 ||
		*s.FailedJobsHistoryLimit != 1 || cj.Generation != 1 {
		t.Errorf("%+v", s)
	}
	if job := s.JobTemplate.Spec; job.BackoffLimit != nil || job.Template.Spec.DNSPolicy == "" {
		t.Errorf("of the Job only its pods have defaults: %+v", job)
	}
	if got := fmt.Sprint(cronJobTable().Cells(cj, time.Time{})); got != "[a */5 * * * * <none> False 0 <none> <unknown> <none> c busybox <none> 5m]" {
		t.Error(got)
	}
}

// The last success is behind the columns of a cluster, and says when the next one is overdue.
func TestCronJobLastSuccess(t *testing.T) {
	cj := newCronJob(nil)
	now := time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC)
	cj.CreationTimestamp = metav1.NewTime(now.Add(-100 * time.Hour))
	for _, c := range []struct {
		every string
		last  time.Duration // before now; 0: none
		want  string
	}{
		{"", 0, "<none>"}, {"", time.Hour, "60m"}, {"26h", time.Hour, "60m"}, {"26h", 27 * time.Hour, "27h (overdue)"}, {"26h", 0, "<none> (overdue)"},
	} {
		cj.Annotations, cj.Status.LastSuccessfulTime = nil, nil
		if c.every != "" {
			cj.Annotations = map[string]string{notices.EveryAnnotation: c.every}
		}
		if c.last > 0 {
			cj.Status.LastSuccessfulTime = ptr.To(metav1.NewTime(now.Add(-c.last)))
		}
		if got := cronJobTable().Cells(cj, now)[7]; got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestCronJobs(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*batchv1.CronJob)
		want string
	}{
		{"one as it should be", nil, "[]"},
		{"a descriptor", func(cj *batchv1.CronJob) { cj.Spec.Schedule = "@daily" }, "[]"},
		{"52 characters", func(cj *batchv1.CronJob) { cj.Name = strings.Repeat("x", 52) }, "[]"},
		{"53 characters", func(cj *batchv1.CronJob) { cj.Name = strings.Repeat("x", 53) }, "must be no more than 52 characters"},
		{"no schedule", func(cj *batchv1.CronJob) { cj.Spec.Schedule = "" }, "[spec.schedule: Required value]"},
		{
			"a schedule of four fields", func(cj *batchv1.CronJob) { cj.Spec.Schedule = "* * * *" },
			`[spec.schedule: Invalid value: "* * * *": expected exactly 5 fields, found 4: [* * * *]]`,
		},
		{
			"a zone in the schedule", func(cj *batchv1.CronJob) { cj.Spec.Schedule = "TZ=UTC * * * * *" },
			"cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
		},
		{
			"a zone and no schedule", func(cj *batchv1.CronJob) { cj.Spec.Schedule = "TZ=UTC" },
			`[spec.schedule: Invalid value: "TZ=UTC": no schedule follows the time zone: TZ=UTC `,
		},
		{
			"nor a zone", func(cj *batchv1.CronJob) { cj.Spec.Schedule = "CRON_TZ=" },
			`[spec.schedule: Invalid value: "CRON_TZ=": no schedule follows the time zone: CRON_TZ= `,
		},
		{"every minute by its name", func(cj *batchv1.CronJob) {
			cj.Spec.Schedule = strings.TrimSuffix(strings.Repeat("59,", 333), ",") + " * * * *"
		}, "may not be more than 1000 bytes"},
		{"a zone", func(cj *batchv1.CronJob) { cj.Spec.TimeZone = ptr.To("Europe/Berlin") }, "[]"},
		{
			"the machine's zone", func(cj *batchv1.CronJob) { cj.Spec.TimeZone = ptr.To("Local") },
			"timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
		},
		{
			"no such zone", func(cj *batchv1.CronJob) { cj.Spec.TimeZone = ptr.To("Europe/Atlantis") },
			`[spec.timeZone: Invalid value: "Europe/Atlantis": unknown time zone Europe/Atlantis]`,
		},
		{"a zone that is a path", func(cj *batchv1.CronJob) { cj.Spec.TimeZone = ptr.To("../etc/passwd") }, "unknown time zone ../etc/passwd"},
		{"a zone without a name", func(cj *batchv1.CronJob) { cj.Spec.TimeZone = ptr.To("") }, "timeZone must be nil or non-empty string"},
		{
			"no such policy", func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = "Queue" },
			`[spec.concurrencyPolicy: Unsupported value: "Queue": supported values: "Allow", "Forbid", "Replace"]`,
		},
		{"a Job that could not be", func(cj *batchv1.CronJob) {
			cj.Spec.JobTemplate.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyAlways
		}, `spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"`},
		{"its Jobs have no selector of their own", func(cj *batchv1.CronJob) {
			cj.Spec.JobTemplate.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
			cj.Spec.JobTemplate.Spec.ManualSelector = ptr.To(true)
		}, `[spec.jobTemplate.spec.selector: Invalid value: {"matchLabels":{"a":"b"}}: ` + "`selector` will be auto-generated " +
			`spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false"]`},
		{"less than none", func(cj *batchv1.CronJob) {
			cj.Spec.StartingDeadlineSeconds, cj.Spec.FailedJobsHistoryLimit = ptr.To[int64](-1), ptr.To[int32](-1)
		}, "[spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0 spec.failedJobsHistoryLimit: " +
			"Invalid value: -1: must be greater than or equal to 0]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := fmt.Sprint(validateCronJob(newCronJob(tc.edit))); !strings.Contains(got, tc.want) {
				t.Error(got)
			}
		})
	}
}

// A schedule is refused in each way in which it can be written.
func TestASchedulesZoneNeedsASpace(t *testing.T) {
	for _, text := range []string{"TZ=", "TZ=0", "TZ=UTC", "CRON_TZ=", "CRON_TZ=UTC", "TZ=\t* * * * *"} {
		cj := newCronJob(func(cj *batchv1.CronJob) { cj.Spec.Schedule = text })
		for what, errs := range map[string]field.ErrorList{
			"created": validateCronJob(cj), "updated": validateCronJobUpdate(cj, newCronJob(nil)), "updated, and was that": validateCronJobUpdate(cj, cj),
		} {
			if got := fmt.Sprint(errs); !strings.Contains(got, "spec.schedule: Invalid value") {
				t.Errorf("%q %s: %s", text, what, got)
			}
		}
		_ = cronJobWarnings(cj)
	}
}

func TestWarningsOfShortIntervals(t *testing.T) {
	for text, want := range map[string]string{
		"@every 1m": "[]", "* * * * *": "[]",
		"@every 25s": `"@every 25s" is taken as every 25s, and no more than one Job a minute`,
		"@every 0s":  `"@every 0s" is taken as every 1s`,
		"@every -5m": `"@every -5m" is taken as every 1s`,
	} {
		if got := fmt.Sprint(cronJobWarnings(newCronJob(func(cj *batchv1.CronJob) { cj.Spec.Schedule = text }))); !strings.Contains(got, want) {
			t.Errorf("%s: %s", text, got)
		}
	}
}

func TestWhatWasOnceLetInStays(t *testing.T) {
	old := newCronJob(func(cj *batchv1.CronJob) {
		cj.Name, cj.Spec.Schedule, cj.Spec.TimeZone = strings.Repeat("x", 60), "TZ=UTC * * * * *", ptr.To("Old/Zone")
	})
	changed := old.DeepCopy()
	changed.Spec.Suspend = ptr.To(true)
	changed.Status.LastScheduleTime = ptr.To(metav1.Now())
	prepareCronJobUpdate(changed, old)
	if changed.Generation != old.Generation+1 || changed.Status.LastScheduleTime != nil {
		t.Errorf("%+v", changed)
	}
	if got := fmt.Sprint(validateCronJobUpdate(changed, old)); !strings.Contains(got, "cannot use both timeZone field and TZ or CRON_TZ in schedule") ||
		strings.Contains(got, "52") || strings.Contains(got, "unknown") {
		t.Error(got)
	}
	if got := cronJobWarnings(old); len(got) != 1 || !strings.HasPrefix(got[0], "spec.schedule") {
		t.Error(got)
	}
}
