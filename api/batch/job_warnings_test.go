package batch

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
)

func TestWarningsOfAJob(t *testing.T) {
	for _, tc := range []struct {
		name, job, spec string
		want            []string
	}{
		{"none", "j", ``, nil},
		{"a name that is no label", "a.b", ``, []string{"metadata.name: this is used in Pod names and hostnames"}},
		{
			"too many indexes to be tracked", "j", `{completionMode: Indexed, completions: 100001, parallelism: 10001}`,
			[]string{"In Indexed Jobs with a number of completions higher than 10^5"},
		},
		{
			"what a template says in vain", "j", `{template: {spec: {schedulerName: mine}}}`,
			[]string{"spec.template.spec.schedulerName: has no effect in jobd: "},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			job := minimalJob(t, tc.job, tc.spec)
			create(job, "u1")
			got := jobWarnings(job)
			if len(got) != len(tc.want) {
				t.Fatalf("%q", got)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], tc.want[i]) {
					t.Errorf("%q, want %q", got[i], tc.want[i])
				}
			}
			changed := job.DeepCopy()
			if w := jobUpdateWarnings(changed, job); len(w) > 0 {
				t.Errorf("of an update that changes nothing: %q", w)
			}
			changed.Generation++
			if w := jobUpdateWarnings(changed, job); tc.job == "j" && len(w) != len(tc.want) {
				t.Errorf("of an update: %q", w)
			}
		})
	}
}

func TestSuspendedForKueue(t *testing.T) {
	for _, tc := range []struct {
		name, spec, label, want string
	}{
		{"suspended and in a queue", `{suspend: true}`, KueueLabel, "metadata.labels[kueue.x-k8s.io/queue-name]: there is no Kueue in jobd, "},
		{"in a queue and not suspended", `{}`, KueueLabel, ""},
		{"suspended, in no queue", `{suspend: true}`, "other", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			job := minimalJob(t, "j", tc.spec)
			job.Labels = map[string]string{tc.label: "gpus"}
			create(job, "u1")
			if got := strings.Join(jobWarnings(job), "\n"); !strings.HasPrefix(got, tc.want) || (got == "") != (tc.want == "") {
				t.Errorf("of the Job: %q", got)
			}
			cj := &batchv1.CronJob{}
			cj.Name, cj.Spec.Schedule = "c", "@hourly"
			cj.Spec.JobTemplate.Labels, cj.Spec.JobTemplate.Spec = job.Labels, job.Spec
			if got := strings.Join(cronJobWarnings(cj), "\n"); (got == "") != (tc.want == "") || tc.want != "" &&
				!strings.HasPrefix(got, "spec.jobTemplate."+tc.want) {
				t.Errorf("of the CronJob: %q", got)
			}
		})
	}
}
