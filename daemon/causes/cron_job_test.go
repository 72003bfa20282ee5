package causes

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestWhyACronJobIsInItsState(t *testing.T) {
	now := time.Date(2026, 6, 1, 11, 3, 30, 0, time.UTC)
	for name, tc := range map[string]struct {
		since time.Time
		last  time.Duration // of lastScheduleTime, from now; 0: none
		want  []string
		not   string
	}{
		"its times are those of its time zone": {want: []string{"No Job was started for 2026-06-01 20:03:00 JST yet", "The next time is 2026-06-02 20:03:00 JST"}},
		"its schedule was changed after that time": {since: now.Add(-time.Second), not: "No Job was started",
			want: []string{"The next time is 2026-06-02 20:03:00 JST"}},
		"its last time is in the future": {last: 30 * 24 * time.Hour, not: "No Job was started", want: []string{
			"status.lastScheduleTime is in the future", "2026-07-01 20:03:30 JST",
			`jobctl patch cronjobs/c -n n --subresource=status --type=merge -p '{"status":{"lastScheduleTime":"2026-06-01T11:03:30Z"}}'`}},
	} {
		t.Run(name, func(t *testing.T) {
			cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "n", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}}
			cj.Spec.Schedule, cj.Spec.TimeZone = "3 20 * * *", ptr.To("Asia/Tokyo")
			if tc.last != 0 {
				cj.Status.LastScheduleTime = ptr.To(metav1.NewTime(now.Add(tc.last)))
			}
			var said strings.Builder
			for _, c := range CronJob(World{Now: now, ScheduledSince: tc.since}, cj, nil, nil).Causes {
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
