package main

import (
	"strings"
	"testing"
)

// TestAnEditedTemplate: whoever applies an edited Job learns what helps, and is not shown the whole template in JSON.
func TestAnEditedTemplate(t *testing.T) {
	const of = `spec.template: Invalid value: {"metadata":{"labels":{"a":"b: field is"}},"spec":{"containers":[{"name":"c"}]}}: field is immutable`
	for name, tc := range map[string]struct{ given, without, with string }{
		"apply":       {`The Job "pi" is invalid: ` + of, "{", "replace --force"},
		"with others": {"The Job \"pi\" is invalid: \n* spec.parallelism: Invalid value: -1: no\n* " + of, "{", "spec.parallelism: Invalid value: -1: no"},
		"replaced":    {"The Job \"pi\" is invalid: \n* spec.selector: Required value\n* " + of, "spec.selector", "replace --force"},
		"over lines":  {"spec.template: Invalid value: core.PodTemplateSpec{\n\tX: 1,\n}: field is immutable", "PodTemplateSpec", "delete the Job first"},
		"suspended": {
			`The Job "pi" is invalid: spec.template.spec: Invalid value: {"containers":[{"name":"c","command":["a: }: field is"]}]}: field is immutable`,
			"containers", "can change; for anything else delete the Job first",
		},
		"suspended, in Go": {"spec.template.spec: Invalid value: core.PodSpec{\n\tX: 1,\n}: field is immutable", "PodSpec", "schedulingGates"},
		"completions": {
			`The Job "pi" is invalid: spec.completions: Invalid value: 5: field is immutable`, "{",
			"5: field is immutable\nTo change what cannot change, delete the Job first",
		},
		"of several fields": {
			"The Job \"pi\" is invalid: \n* spec.completions: Invalid value: 3: no\n* spec.completionMode: Invalid value: \"Indexed\": field is immutable",
			"{", "replace --force",
		},
		"of a Secret":  {`The Secret "s" is invalid: type: Invalid value: "a": field is immutable`, "replace --force", "field is immutable"},
		"another one":  {`spec.selector: Invalid value: {"a":"b"}: field is immutable`, "replace --force", `{"a":"b"}: field is immutable`},
		"another kind": {`spec.template.spec: Invalid value: 3: field is immutable`, "replace --force", "3: field is immutable"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := newWords(nil).translate(tc.given); strings.Contains(got, tc.without) || !strings.Contains(got, tc.with) {
				t.Errorf("it says %q", got)
			}
		})
	}
}

// TestConditionsOfJobs: a condition of Jobs needs no word before it.
func TestConditionsOfJobs(t *testing.T) {
	given := []string{"complete", "Failed", "suspended", "delete", "condition=Ready", "jsonpath={.a}", "create", "done", "succeeded"}
	want := "condition=Complete condition=Failed condition=Suspended delete condition=Ready jsonpath={.a} create finished condition=Complete"
	if got := strings.Join(ofJobs(given), " "); got != want {
		t.Errorf("got %q", got)
	}
}
