package cron

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestTimesOf(t *testing.T) {
	lastly := func(s string) func(*batchv1.CronJob) {
		return func(cj *batchv1.CronJob) { cj.Status.LastScheduleTime = ptr.To(metav1.NewTime(at(s))) }
	}
	every25s := func(cj *batchv1.CronJob) { cj.Spec.Schedule, cj.Spec.TimeZone = "@every 25s", nil }
	for _, tc := range []struct {
		name  string
		edit  []func(*batchv1.CronJob)
		since string
		now   string
		want  string
	}{
		{"nothing is due", nil, "", "2024-05-01T10:59:59Z", "due -, next 11:00:00"},
		{"what is due", nil, "", "2024-05-01T11:00:01Z", "due 11:00:00, next 12:00:00"},
		{"what was due before the schedule was changed", nil, "2024-05-01T11:00:00.5Z", "2024-05-01T11:00:01Z", "due -, next 12:00:00"},
		{"and what comes after that", nil, "2024-05-01T10:59:59.5Z", "2024-05-01T11:00:01Z", "due 11:00:00, next 12:00:00"},
		{
			"more than once in the minute of a Job", []func(*batchv1.CronJob){every25s, lastly("2024-05-01T11:00:05Z")}, "",
			"2024-05-01T11:00:56Z", "due -, next 11:01:20",
		},
		{"a last time in the future", []func(*batchv1.CronJob){lastly("2024-05-01T15:00:00Z")}, "", "2024-05-01T11:00:56Z", "due -, next 16:00:00"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := hourly()
			for _, edit := range tc.edit {
				edit(g.cj)
			}
			var since time.Time
			if tc.since != "" {
				since = at(tc.since)
			}
			times, err := TimesOf(g.cj, since, at(tc.now))
			if err != nil {
				t.Fatal(err)
			}
			show := func(t time.Time) string {
				if t.IsZero() {
					return "-"
				}
				return t.UTC().Format("15:04:05")
			}
			if got := fmt.Sprintf("due %s, next %s", show(times.Due), show(times.Next)); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

func TestMemory(t *testing.T) {
	const before, change, after = "2024-05-01T10:00:00Z", "2024-05-01T11:00:00Z", "2024-05-01T12:00:00Z"
	cj := hourly().cj
	changed := cj.DeepCopy()
	changed.Spec.TimeZone = ptr.To("Asia/Tokyo")
	for name, tc := range map[string]struct {
		do   func(*Record)
		want string // since
	}{
		"it has always been that":                          {func(*Record) {}, ""},
		"a new version that does not change it":            {func(r *Record) { r.SetCronJob(cj, at(change)) }, ""},
		"another zone is another schedule":                 {func(r *Record) { r.SetCronJob(changed, at(change)) }, change},
		"it is recalled":                                   {func(r *Record) { r.Recall(Memory{scheduleOf(cj), at(change)}, at(after)) }, change},
		"it was changed while nobody looked":               {func(r *Record) { r.Recall(Memory{"another", at(before)}, at(change)) }, change},
		"a clock that was ahead, seen at start":            {func(r *Record) { r.Recall(Memory{scheduleOf(cj), at(after)}, at(change)) }, change},
		"a clock that was ahead":                           {func(r *Record) { r.SetCronJob(changed, at(after)); r.ClockSetBack(at(change)) }, change},
		"a clock that was set back to what is late enough": {func(r *Record) { r.SetCronJob(changed, at(change)); r.ClockSetBack(at(after)) }, change},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewRecord(cj)
			tc.do(r)
			m, _ := r.Memory()
			if tc.want == "" && !m.Since.IsZero() || tc.want != "" && !m.Since.Equal(at(tc.want)) {
				t.Errorf("since %v, want %q", m.Since, tc.want)
			}
			r.Saved()
			if _, saved := r.Memory(); !saved {
				t.Error("it is to be saved again")
			}
		})
	}
}
