package batch

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
)

func TestAnnotationsOfTimes(t *testing.T) {
	forbid := func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = batchv1.ForbidConcurrent }
	for _, tc := range []struct {
		name        string
		annotations map[string]string
		edit        func(*batchv1.CronJob)
		want        string
	}{
		{"none", nil, nil, "[]"},
		{"all of them", map[string]string{
			MissedAnnotation: "all", MissedMaxAnnotation: "100", JitterAnnotation: "10m", SchedulesAnnotation: "0 9 * * 6; @daily;",
		}, forbid, "[]"},
		{"another policy", map[string]string{MissedAnnotation: "some"}, nil,
			`[metadata.annotations[jobd.dev/missed]: Unsupported value: "some": supported values: "latest", "all", "none"]`},
		{"an empty policy", map[string]string{MissedAnnotation: ""}, nil, "metadata.annotations[jobd.dev/missed]: Unsupported value"},
		{"each of them, and Replace", map[string]string{MissedAnnotation: "all"},
			func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = batchv1.ReplaceConcurrent }, "cannot be combined with spec.concurrencyPolicy Replace"},
		{"each of them, and several a minute", map[string]string{MissedAnnotation: "all"},
			func(cj *batchv1.CronJob) { cj.Spec.Schedule = "@every 10s" }, "cannot be combined with @every below a minute"},
		{"each of them, every minute", map[string]string{MissedAnnotation: "all"}, func(cj *batchv1.CronJob) { cj.Spec.Schedule = "@every 60s" }, "[]"},
		{"none at all", map[string]string{MissedAnnotation: "all", MissedMaxAnnotation: "0"}, nil,
			`[metadata.annotations[jobd.dev/missed-max]: Invalid value: "0": must be a number from 1 to 100]`},
		{"too many", map[string]string{MissedAnnotation: "all", MissedMaxAnnotation: "101"}, nil, "must be a number from 1 to 100"},
		{"a maximum of what is not made up for", map[string]string{MissedAnnotation: "none", MissedMaxAnnotation: "5"}, nil, "needs jobd.dev/missed: all"},
		{"no duration", map[string]string{JitterAnnotation: "10"}, nil,
			`[metadata.annotations[jobd.dev/jitter]: Invalid value: "10": must be a duration such as "10m", from 1s to 24h0m0s]`},
		{"back in time", map[string]string{JitterAnnotation: "-1h"}, nil, "must be a duration such as"},
		{"longer than a day", map[string]string{JitterAnnotation: "24h1s"}, nil, "must be a duration such as"},
		{"longer than can be counted", map[string]string{JitterAnnotation: strings.Repeat("9", 400) + "h"}, nil, "must be a duration such as"},
		{"no schedule", map[string]string{SchedulesAnnotation: " ; "}, nil, "must be schedules separated by semicolons"},
		{"what is no schedule", map[string]string{SchedulesAnnotation: "@daily; noon"}, nil,
			`metadata.annotations[jobd.dev/schedules]: Invalid value: "@daily; noon": "noon": expected exactly 5 fields`},
		{"a zone", map[string]string{SchedulesAnnotation: "TZ=UTC 0 9 * * *"}, nil, "cannot use TZ or CRON_TZ: all schedules are in spec.timeZone"},
		{"a beat", map[string]string{SchedulesAnnotation: "@every 1h"}, nil, "cannot be @every"},
		{"beside a beat", map[string]string{SchedulesAnnotation: "@daily"}, func(cj *batchv1.CronJob) { cj.Spec.Schedule = "@every 1h" },
			"cannot be combined with @every in spec.schedule"},
		{"eleven", map[string]string{SchedulesAnnotation: strings.Repeat("@daily;", 11)}, nil, "must be no more than 10 schedules"},
		{"long ones", map[string]string{SchedulesAnnotation: strings.Repeat(" ", 1001)}, nil, "must be no more than 1000 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cj := newCronJob(func(cj *batchv1.CronJob) {
				if cj.Annotations = tc.annotations; tc.edit != nil {
					tc.edit(cj)
				}
			})
			before := newCronJob(tc.edit)
			for what, errs := range map[string]string{
				"created": fmt.Sprint(validateCronJob(cj)), "updated": fmt.Sprint(validateCronJobUpdate(cj, before)),
				"written with its status": fmt.Sprint(validateCronJobStatusUpdate(cj, before)),
			} {
				if !strings.Contains(errs, tc.want) {
					t.Errorf("%s: %s", what, errs)
				}
			}
			unchanged := cj.DeepCopy()
			unchanged.Labels = map[string]string{"a": "b"}
			if errs := validateCronJobTimes(unchanged, cj); len(errs) > 0 {
				t.Errorf("what was stored before is refused: %v", errs)
			}
		})
	}
}

// The place of a CronJob within its jitter is always the same, and CronJobs are spread over all of it.
func TestJitter(t *testing.T) {
	if got := offset("default", "backup", 10*time.Minute); got != 9*time.Minute+29*time.Second {
		t.Errorf("the offset of a name has changed: %v", got)
	}
	var tenths [10]int
	for i := range 10_000 {
		at := offset("default", fmt.Sprint("nightly-", i), 10*time.Minute)
		if at < 0 || at >= 10*time.Minute || at%time.Second != 0 {
			t.Fatalf("%v", at)
		}
		tenths[at/time.Minute]++
	}
	for i, n := range tenths {
		if n < 800 || n > 1200 {
			t.Errorf("%d of 10000 are in minute %d", n, i)
		}
	}
	if offset("a", "b", 0) != 0 || offset("a", "b", -time.Hour) != 0 || offset("a", "b", time.Second) != 0 {
		t.Error("there is no place within nothing")
	}
}

func TestNextStart(t *testing.T) {
	now := time.Date(2026, 6, 1, 11, 3, 0, 0, time.UTC)
	for _, tc := range []struct {
		name, schedule string
		annotations    map[string]string
		last           time.Time
		want           string
	}{
		{"as the schedule says", "0 * * * *", nil, time.Time{}, "57m"},
		{"later, by its jitter, for a time that has come", "0 * * * *", map[string]string{JitterAnnotation: "10m"}, time.Time{}, "6m16s"},
		{"sooner, by another schedule", "0 * * * *", map[string]string{SchedulesAnnotation: "45 * * * *; 30 * * * *"}, time.Time{}, "27m"},
		{"counted from the last", "@every 20m", nil, now.Add(-30 * time.Minute), "10m"},
		{"never", "0 0 30 2 *", nil, time.Time{}, "<none>"},
		{"not without a meaning", "0 * * * *", map[string]string{JitterAnnotation: "x"}, time.Time{}, "<none>"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cj := newCronJob(func(cj *batchv1.CronJob) {
				cj.Name, cj.Namespace, cj.CreationTimestamp = "jitter-3", "default", metav1.NewTime(now.Add(-24*time.Hour))
				cj.Spec.Schedule, cj.Annotations = tc.schedule, maps.Clone(tc.annotations)
				if !tc.last.IsZero() {
					cj.Status.LastScheduleTime = ptr.To(metav1.NewTime(tc.last))
				}
			})
			if got := nextStart(cj, now); got != tc.want {
				t.Errorf("%s, want %s (offset %v)", got, tc.want, offset("default", "jitter-3", 10*time.Minute))
			}
			cj.Spec.Suspend = ptr.To(true)
			if got := nextStart(cj, now); got != "<none>" {
				t.Errorf("suspended: %s", got)
			}
		})
	}
}

func TestScheduledAt(t *testing.T) {
	for text, want := range map[string]string{
		"2026-06-01T22:00:00+02:00": "2026-06-01T22:00:00+02:00", "": "", "yesterday": "", strings.Repeat("x", 100_000): "",
	} {
		if got := ScheduledAt(map[string]string{batchv1.CronJobScheduledTimestampAnnotation: text}); got != want {
			t.Errorf("%.30q: %q", text, got)
		}
	}
}

// Who asks for a run for each missed time is told what the group of these runs may do to them.
func TestWarningsOfMissedRunsInAGroup(t *testing.T) {
	for _, tc := range []struct{ missed, policy, want string }{
		{"all", "Queue", ""}, {"all", "", ""}, {"latest", "Replace", ""}, {"", "Forbid", ""},
		{"all", "Forbid", "a run fails if another Job of the group db runs at that time"},
		{"all", "Replace", "a run still fails when a later Job of the group db replaces it"},
	} {
		cj := newCronJob(func(cj *batchv1.CronJob) {
			cj.Annotations = map[string]string{MissedAnnotation: tc.missed}
			cj.Spec.JobTemplate.Annotations = map[string]string{core.ConcurrencyGroupAnnotation: "db"}
			if tc.policy != "" {
				cj.Spec.JobTemplate.Annotations[core.ConcurrencyPolicyAnnotation] = tc.policy
			}
		})
		for _, got := range []string{strings.Join(cronJobWarnings(cj), "\n"), strings.Join(cronJobUpdateWarnings(cj, newCronJob(nil)), "\n")} {
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("%+v: %q", tc, got)
			}
		}
		if got := cronJobUpdateWarnings(cj, cj); len(got) > 0 {
			t.Errorf("%+v: it is said again: %q", tc, got)
		}
	}
}

// TestWarningsOfSchedules: who writes one that means something else than it seems to learns that at once, not when nothing has run.
func TestWarningsOfSchedules(t *testing.T) {
	for text, want := range map[string]string{
		"0 0 30 2 *":   `"0 0 30 2 *" is no time that comes within five years`,
		"0 0 31 4,6 *": "it starts no Job",
		"0 0 29 2 *":   "",
		"*/90 * * * *": "the minute */90 is 0 alone: a step begins anew with each range of 0 to 59",
		"0 */36 * * *": "the hour */36 is 0 alone",
		"0 0 */31 * *": "the day of the month */31 is 1 alone",
		"*/45 * * * *": "",
		"0 0 * * */2":  "",
		"@daily":       "",
		"nonsense":     "",
	} {
		cj := newCronJob(func(cj *batchv1.CronJob) { cj.Spec.Schedule = text })
		if got := strings.Join(cronJobWarnings(cj), "\n"); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q", text, got)
		}
	}
}
