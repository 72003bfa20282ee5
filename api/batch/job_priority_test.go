package batch

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestPrioritizedIsATimeThatHasCome(t *testing.T) {
	in := func(d time.Duration) map[string]string {
		return map[string]string{PrioritizedAnnotation: time.Now().Add(d).Format(time.RFC3339Nano)}
	}
	later := in(time.Hour)
	for name, tc := range map[string]struct {
		annotations, old map[string]string
		want             string // in the error
	}{
		"none":                      {},
		"now":                       {annotations: in(0)},
		"a clock that is ahead":     {annotations: in(30 * time.Second)},
		"no time":                   {annotations: map[string]string{PrioritizedAnnotation: "first"}, want: "must be a time such as"},
		"in an hour":                {annotations: later, want: "must not be in the future"},
		"in an hour, as it was":     {annotations: later, old: later},
		"in an hour instead of now": {annotations: later, old: in(0), want: "must not be in the future"},
	} {
		errs := validatePrioritized(tc.annotations, tc.old, field.NewPath("metadata", "annotations"))
		if tc.want == "" && len(errs) > 0 || tc.want != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), tc.want) ||
			errs[0].Field != "metadata.annotations["+PrioritizedAnnotation+"]") {
			t.Errorf("%s: got %v, want %q", name, errs, tc.want)
		}
	}
}
