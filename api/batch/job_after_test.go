package batch

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func TestParseAfter(t *testing.T) {
	for text, want := range map[string][]Need{
		"prep":                   {{"prep", NeedOK, false}},
		"prep:ok, check:any":     {{"prep", NeedOK, false}, {"check", NeedAny, false}},
		"a.b:failed":             {{"a.b", NeedFailed, false}},
		"a,jobsets/a:any":        {{"a", NeedOK, false}, {"a", NeedAny, true}},
		"jobs/a,jobset/b":        {{"a", NeedOK, false}, {"b", NeedOK, true}},
		"jobsets/":               nil,
		"jobsets/a/b":            nil,
		"cronjobs/a":             nil,
		"jobs/a,a":               nil,
		"":                       nil,
		"prep,":                  nil,
		"prep:never":             nil,
		"prep:":                  nil,
		"Prep":                   nil,
		"a,b,a:any":              nil,
		"../x":                   nil,
		strings.Repeat("a,", 40): nil,
	} {
		got, err := parseAfter(text)
		if (err != nil) != (want == nil) || !slices.Equal(got, want) {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
	var many []string
	for i := range maxNeeds + 1 {
		many = append(many, "j"+strings.Repeat("x", i))
	}
	if _, err := parseAfter(strings.Join(many, ",")); err == nil || !strings.Contains(err.Error(), "at most 32") {
		t.Errorf("%v", err)
	}
}

func TestFormatAfter(t *testing.T) {
	for _, c := range []struct {
		parts []string
		want  string
	}{
		{[]string{"prep:ok,check:any", "x:failed"}, "prep,check:any,x:failed"},
		{[]string{"jobs/prep:ok,jobset/check:any"}, "prep,jobsets/check:any"},
		{[]string{""}, ""}, {nil, ""}, {[]string{"a", "a"}, ""},
	} {
		if got, err := FormatAfter(c.parts); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q: %q %v", c.parts, got, err)
		}
	}
}

func held(annotations map[string]string, suspend bool) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", Annotations: annotations}}
	j.Spec.Suspend = ptr.To(suspend)
	return j
}

func TestAfterNeedsASuspendedJob(t *testing.T) {
	path := field.NewPath("metadata", "annotations")
	for _, c := range []struct {
		name, text string
		suspend    bool
		want       string
	}{
		{"suspended", "prep", true, ""},
		{"not suspended", "prep", false, "metadata.annotations[jobd.dev/after]: Invalid value: \"prep\": needs spec.suspend: true"},
		{"wrong", "prep:x", true, "metadata.annotations[jobd.dev/after]: Invalid value: \"prep:x\""},
		{"empty", "", true, "metadata.annotations[jobd.dev/after]"},
	} {
		j := held(map[string]string{AfterAnnotation: c.text}, c.suspend)
		err := validateAfter(j.Annotations, &j.Spec, false, path).ToAggregate()
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestUpdatesOfAHeldJob(t *testing.T) {
	const resumed = "2026-01-01T00:00:00Z"
	after := map[string]string{AfterAnnotation: "prep"}
	done := map[string]string{AfterAnnotation: "prep", ResumedAnnotation: resumed}
	for _, c := range []struct {
		name     string
		old, new *batchv1.Job
		refused  string
		resumed  bool // afterwards
		awaits   bool
		warns    bool
	}{
		{"nothing changes", held(after, true), held(after, true), "", false, true, false},
		{"somebody resumes it", held(after, true), held(after, false), "", true, false, false},
		{"a client claims that it was resumed", held(after, true), held(done, true), "", false, true, false},
		{"a client drops that it was", held(done, false), held(after, false), "", true, false, false},
		{"it is suspended again", held(done, false), held(after, true), "", true, false, true},
		{"other Jobs", held(after, true), held(map[string]string{AfterAnnotation: "b"}, true), "", false, true, false},
		{"other Jobs, too late", held(done, false), held(map[string]string{AfterAnnotation: "b"}, false), "resumed at " + resumed, true, false, false},
		{"of a Job that runs", held(nil, false), held(after, false), "needs spec.suspend", false, false, false},
		{"of a Job that is suspended", held(nil, true), held(after, true), "", false, true, false},
		{"the annotation goes", held(after, true), held(nil, true), "", false, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := c.new.DeepCopy()
			prepareJobUpdate(job, c.old)
			err := validateHoldUpdate(AfterAnnotation, validateAfter, job, c.old, field.NewPath("metadata", "annotations")).ToAggregate()
			if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%v", err)
			}
			if got := job.Annotations[ResumedAnnotation] != ""; got != c.resumed {
				t.Errorf("resumed: %v", job.Annotations)
			}
			if AwaitsJobs(job) != c.awaits {
				t.Errorf("awaits others: %v", AwaitsJobs(job))
			}
			if got := resumedWarnings(job, c.old); (len(got) > 0) != c.warns {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestANewJobWasNotResumed(t *testing.T) {
	j := held(map[string]string{AfterAnnotation: "prep", ResumedAnnotation: "2026-01-01T00:00:00Z"}, true)
	SetJobDefaults(j)
	if PrepareJob(j); !AwaitsJobs(j) {
		t.Errorf("%v", j.Annotations)
	}
	// One that is stored, and was resumed, is sound (jobd db check).
	Resume(j, time.Unix(1_700_000_000, 0))
	for _, err := range ValidateJob(j) {
		if strings.Contains(err.Field, AfterAnnotation) {
			t.Error(err)
		}
	}
}

func TestStateOfAHeldJob(t *testing.T) {
	j := held(map[string]string{AfterAnnotation: "prep,check:any"}, true)
	now := time.Unix(1_700_000_000, 0)
	if State(j) != StateWaiting || jobState(j, now) != "After:prep,check" {
		t.Errorf("%s %s", State(j), jobState(j, now))
	}
	j.Annotations[AfterAnnotation] = strings.Repeat("long-", 20) + "name"
	if got := jobState(j, now); len(got) != len("After:")+maxNeedsShown || !strings.HasSuffix(got, "...") {
		t.Errorf("%q", got)
	}
	j.Annotations[ResumedAnnotation] = "2026-01-01T00:00:00Z"
	if State(j) != StateSuspended {
		t.Errorf("%s", State(j))
	}
	j.Annotations = map[string]string{AfterAnnotation: "prep"}
	if j.Spec.ManagedBy = ptr.To("example.com/other"); State(j) != StateSuspended {
		t.Errorf("that of another controller: %s", State(j))
	}
}
