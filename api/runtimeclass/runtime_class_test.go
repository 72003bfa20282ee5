package runtimeclass

import (
	"fmt"
	"testing"

	nodev1 "k8s.io/api/node/v1"
	"sigs.k8s.io/yaml"
)

func class(t *testing.T, manifest string) *nodev1.RuntimeClass {
	t.Helper()
	rc := &nodev1.RuntimeClass{}
	if err := yaml.UnmarshalStrict([]byte(manifest), rc); err != nil {
		t.Fatal(err)
	}
	if rc.Name == "" {
		rc.Name = "sandboxed"
	}
	rc.ResourceVersion = "1"
	return rc
}

func TestRuntimeClasses(t *testing.T) {
	const label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and " +
		"end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
	for _, tc := range []struct{ name, class, want string }{
		{
			"with all it can have",
			`{handler: runsc, overhead: {podFixed: {cpu: 10m, memory: 1Mi}}, scheduling: {nodeSelector: {a: b}, tolerations: [{key: a, operator: Exists}]}}`,
			"[]",
		},
		{"without a handler", `{}`, "[handler: Required value]"},
		{"a handler that is no label", `{handler: Run_SC}`, `[handler: Invalid value: "Run_SC": ` + label + "]"},
		{"a handler that is a path", `{handler: /usr/bin/runsc}`, `[handler: Invalid value: "/usr/bin/runsc": ` + label + "]"},
		{
			"a negative overhead", `{handler: a, overhead: {podFixed: {cpu: -1}}}`,
			`[overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0]`,
		},
		{
			"an overhead of nothing that there is", `{handler: a, overhead: {podFixed: {pods: 1}}}`,
			`[overhead.limits[pods]: Invalid value: "pods": must be a standard resource for containers]`,
		},
		{
			"a selector that selects nothing", `{handler: a, scheduling: {nodeSelector: {a: "b c"}}}`,
			`[scheduling.nodeSelector: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')]`,
		},
		{
			"a toleration that is none", `{handler: a, scheduling: {tolerations: [{key: a, operator: Exists, value: b}]}}`,
			`[scheduling.tolerations[0].operator: Invalid value: "b": value must be empty when ` + "`operator` is 'Exists']",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := fmt.Sprint(validateRuntimeClass(class(t, tc.class))); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
	twice := `{handler: a, scheduling: {tolerations: [{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 1}, {key: a, operator: Exists, effect: NoExecute}]}}`
	if errs := validateRuntimeClass(class(t, twice)); len(errs) != 1 || errs[0].Field != "scheduling.tolerations[1]" || errs[0].Detail != "" {
		t.Errorf("the same toleration twice: %v", errs)
	}
}

func TestTheHandlerOfAClassStays(t *testing.T) {
	old := class(t, `{handler: a}`)
	if errs := validateRuntimeClassUpdate(class(t, `{handler: a, overhead: {podFixed: {cpu: 1}}}`), old); len(errs) > 0 {
		t.Errorf("another overhead: %v", errs)
	}
	if got := fmt.Sprint(validateRuntimeClassUpdate(class(t, `{handler: b}`), old)); got != `[handler: Invalid value: "b": field is immutable]` {
		t.Errorf("another handler: %s", got)
	}
}
