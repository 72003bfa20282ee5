package batch

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBackoffAnnotations(t *testing.T) {
	for _, tc := range []struct{ name, base, limit, want string }{
		{"good", "500ms", "2m", ""},
		{"one alone", "1s", "", ""},
		{"not a duration", "soon", "", `metadata.annotations[jobd.dev/backoff-base]: Invalid value: "soon": must be a duration such as "500ms" or "2m"`},
		{"a number has no unit", "", "10", `metadata.annotations[jobd.dev/backoff-cap]: Invalid value: "10": must be a duration such as "500ms" or "2m"`},
		{"nothing", "0s", "-1s", `metadata.annotations[jobd.dev/backoff-base]: Invalid value: "0s": must be longer than 0
metadata.annotations[jobd.dev/backoff-cap]: Invalid value: "-1s": must be longer than 0`},
		{
			"a cap below the base", "1m", "10s",
			`metadata.annotations[jobd.dev/backoff-cap]: Invalid value: "10s": must not be shorter than jobd.dev/backoff-base`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			job := minimalJob(t, "j", "")
			job.Annotations = map[string]string{}
			if tc.base != "" {
				job.Annotations[BackoffBaseAnnotation] = tc.base
			}
			if tc.limit != "" {
				job.Annotations[BackoffCapAnnotation] = tc.limit
			}
			if diff := cmp.Diff(tc.want, said(create(job, "u1"))); diff != "" {
				t.Errorf("on creation: -want +got\n%s", diff)
			}
			old := updated(t, "u-plain")
			changed := old.DeepCopy()
			changed.Annotations = job.Annotations
			if diff := cmp.Diff(tc.want, said(validateJobUpdate(changed, old))); diff != "" {
				t.Errorf("on update: -want +got\n%s", diff)
			}
		})
	}
	base, limit, err := JobBackoff(map[string]string{BackoffBaseAnnotation: "500ms"})
	if base != 500*time.Millisecond || limit != 0 || err != nil {
		t.Errorf("%s, %s, %v", base, limit, err)
	}
}
