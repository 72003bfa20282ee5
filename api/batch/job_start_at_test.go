package batch

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestStartAtIsATimeOfASuspendedJob(t *testing.T) {
	path := field.NewPath("metadata", "annotations")
	const name = "metadata.annotations[jobd.dev/start-at]: "
	for _, c := range []struct {
		text    string
		suspend bool
		want    string
	}{
		{"2026-12-01T22:00:00+01:00", true, ""},
		{"2020-12-01T22:00:00Z", true, ""}, // past: at once
		{"2026-12-01T22:00:00Z", false, name + `Invalid value: "2026-12-01T22:00:00Z": needs spec.suspend: true`},
		{"22:00", true, name + `Invalid value: "22:00": must be a time with its zone`},
		{"2026-12-01T22:00", true, name + `Invalid value: "2026-12-01T22:00": must be a time with its zone`},
		{"2026-02-30T22:00:00Z", true, name},
		{"9999-12-31T23:59:59Z", true, ""},
		{"9999-12-31T23:59:59-05:00", true, name},
		{"0000-01-01T00:00:00+01:00", true, name},
		{"", true, name},
	} {
		j := held(map[string]string{StartAtAnnotation: c.text}, c.suspend)
		err := validateStartAt(j.Annotations, &j.Spec, false, path).ToAggregate()
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q: %v", c.text, err)
		}
		if AwaitsTime(j) != (c.want == "" && c.suspend) {
			t.Errorf("%q: awaits its time: %v", c.text, AwaitsTime(j))
		}
	}
	errs := validateNoStartAt(map[string]string{StartAtAnnotation: "2026-12-01T22:00:00Z"}, path)
	if len(errs) != 1 || errs[0].Field != strings.TrimSuffix(name, ": ") {
		t.Errorf("of the Jobs of a CronJob: %v", errs)
	}
}

func TestUpdatesOfAJobThatAwaitsATime(t *testing.T) {
	const resumed = "2026-01-01T00:00:00Z"
	at := func(text string) map[string]string { return map[string]string{StartAtAnnotation: text} }
	waits, done := at("2026-12-01T22:00:00Z"), at("2026-12-01T22:00:00Z")
	done[ResumedAnnotation] = resumed
	other := at("2027-12-01T22:00:00Z")
	for _, c := range []struct {
		name     string
		old, new *batchv1.Job
		refused  string
		resumed  bool // afterwards
	}{
		{"nothing changes", held(waits, true), held(waits, true), "", false},
		{"somebody resumes it", held(waits, true), held(waits, false), "", true},
		{"another time", held(waits, true), held(other, true), "", false},
		{"another time, too late", held(done, false), held(other, false), "has no effect any more: the Job was resumed at " + resumed, true},
		{"of a Job that runs", held(nil, false), held(waits, false), "needs spec.suspend", false},
		{"suspended again", held(done, false), held(done, true), "", true},
	} {
		job := c.new.DeepCopy()
		prepareJobUpdate(job, c.old)
		err := validateHoldUpdate(StartAtAnnotation, validateStartAt, job, c.old, field.NewPath("metadata", "annotations")).ToAggregate()
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := job.Annotations[ResumedAnnotation] != ""; got != c.resumed {
			t.Errorf("%s: %v", c.name, job.Annotations)
		}
	}
}

func TestTheColumnSaysWhen(t *testing.T) {
	now := time.Date(2026, 11, 27, 21, 30, 0, 0, time.UTC)
	for _, c := range []struct{ at, after, want string }{
		{"2026-11-27T23:00:00+01:00", "", "At:23:00"},
		{"2026-11-30T22:00:00Z", "", "At:Mon-22:00"},
		{"2026-12-24T22:00:00Z", "", "At:2026-12-24"},
		{"2026-11-30T22:00:00Z", "prep", "At:Mon-22:00,After:prep"},
		{"2026-11-20T22:00:00Z", "prep", "After:prep"},
	} {
		j := held(map[string]string{StartAtAnnotation: c.at}, true)
		if c.after != "" {
			metav1.SetMetaDataAnnotation(&j.ObjectMeta, AfterAnnotation, c.after)
		}
		if got := jobState(j, now); got != c.want || State(j) != StateWaiting {
			t.Errorf("%s %s: %s, %s", c.at, c.after, got, State(j))
		}
	}
}
