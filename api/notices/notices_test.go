package notices

import (
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The nearest object that says something decides, for each annotation alone.
func TestOf(t *testing.T) {
	usual := []Kind{Failed, Recovered, Overdue}
	for name, tc := range map[string]struct {
		job, cronJob, namespace map[string]string
		want                    Wanted
	}{
		"nothing is said": {want: Wanted{On: usual, After: DefaultAfter}},
		"the namespace's": {
			namespace: map[string]string{ReceiversAnnotation: "ops", OnAnnotation: "finished"},
			want:      Wanted{[]string{"ops"}, []Kind{Finished}, DefaultAfter},
		},
		"the Job's before all others": {
			job:       map[string]string{ReceiversAnnotation: "me, ops,me"},
			cronJob:   map[string]string{ReceiversAnnotation: "team", OnAnnotation: "failed,waits", AfterAnnotation: "1h"},
			namespace: map[string]string{ReceiversAnnotation: "ops", OnAnnotation: "finished"},
			want:      Wanted{[]string{"me", "ops"}, []Kind{Failed, Waits}, time.Hour},
		},
		"a Job that wants none": {
			job: map[string]string{ReceiversAnnotation: ""}, namespace: map[string]string{ReceiversAnnotation: "ops"},
			want: Wanted{On: usual, After: DefaultAfter},
		},
		"what is not valid": {
			job:  map[string]string{ReceiversAnnotation: "https://evil.example,ops", OnAnnotation: "always", AfterAnnotation: "soon"},
			want: Wanted{[]string{"ops"}, usual, DefaultAfter},
		},
	} {
		if got := Of(tc.job, tc.cronJob, tc.namespace); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		annotation, text, want string
	}{
		"names":              {ReceiversAnnotation, "ops, mail", ""},
		"none":               {ReceiversAnnotation, "", ""},
		"an address":         {ReceiversAnnotation, "https://example.com/hook", "must be names of receivers"},
		"too many":           {ReceiversAnnotation, "a,b,c,d,e,f,g,h,i,j,k", "at most 10"},
		"all kinds":          {OnAnnotation, KindList(), ""},
		"an unknown kind":    {OnAnnotation, "failed,started", "must be of failed,"},
		"a long list":        {OnAnnotation, strings.Repeat(",", 1001), "no longer than 1000"},
		"a time":             {AfterAnnotation, "90s", ""},
		"no time":            {AfterAnnotation, "0s", "must be a duration"},
		"a day":              {EveryAnnotation, "1d", "write 24h"},
		"no kind":            {OnAnnotation, " ,", "to be told of nothing"},
		"a day and some":     {EveryAnnotation, "26h", ""},
		"a second":           {EveryAnnotation, "1s", "at least 1m0s"},
		"more than a year":   {EveryAnnotation, "99999h", "at most 8784h0m0s"},
		"a number without s": {EveryAnnotation, "26", "must be a duration"},
	} {
		errs := Validate(map[string]string{tc.annotation: tc.text}, field.NewPath("metadata", "annotations"))
		if (len(errs) == 0) != (tc.want == "") || len(errs) > 0 && !strings.Contains(errs[0].Error(), tc.want) ||
			len(errs) > 0 && !strings.HasPrefix(errs[0].Field, "metadata.annotations["+tc.annotation) {
			t.Errorf("%s: %v, want %q", name, errs, tc.want)
		}
	}
}

func TestExpect(t *testing.T) {
	begin := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	later := metav1.NewTime(begin.Add(time.Hour))
	daily := map[string]string{EveryAnnotation: "24h"}
	for name, tc := range map[string]struct {
		annotations map[string]string
		last        *metav1.Time
		after       time.Duration // of begin
		want        Late
	}{
		"not expected":              {nil, nil, 1000 * time.Hour, Late{}},
		"never succeeded, in time":  {daily, nil, 24*time.Hour - 1, Late{Due: begin.Add(24 * time.Hour)}},
		"never succeeded, too late": {daily, nil, 24 * time.Hour, Late{begin.Add(24 * time.Hour), true}},
		"succeeded since":           {daily, &later, 24 * time.Hour, Late{Due: begin.Add(25 * time.Hour)}},
		"not again":                 {daily, &later, 26 * time.Hour, Late{begin.Add(25 * time.Hour), true}},
	} {
		if got := Expect(tc.annotations, begin, tc.last, begin.Add(tc.after)); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}
