package scheduling

import (
	"fmt"
	"testing"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"sigs.k8s.io/yaml"
)

func read[T any](t *testing.T, manifest string) *T {
	t.Helper()
	obj := new(T)
	if err := yaml.UnmarshalStrict([]byte(manifest), obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestPodGroups(t *testing.T) {
	for rule, c := range map[string]struct{ spec, was, want string }{
		"a gang":               {`{schedulingPolicy: {gang: {minCount: 3}}}`, "", "[]"},
		"no gang":              {`{schedulingPolicy: {basic: {}}}`, "", "[]"},
		"a policy is required": {`{}`, "", "[spec.schedulingPolicy: Invalid value: \"\": must specify one of: `basic`, `gang`]"},
		"there is one policy": {
			`{schedulingPolicy: {basic: {}, gang: {minCount: 3}}}`, "",
			"[spec.schedulingPolicy: Invalid value: \"{basic, gang}\": must specify exactly one of: `basic`, `gang`]",
		},
		"a gang has a pod": {
			`{schedulingPolicy: {gang: {minCount: -1}}}`, "",
			"[spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1]",
		},
		"a workload has a name": {
			`{schedulingPolicy: {basic: {}}, workloadRef: {workloadName: "B_", templateName: t}}`, "",
			"[spec.workloadRef.workloadName: Invalid value: \"B_\": a lowercase RFC 1123 subdomain must consist of lower case " +
				"alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', " +
				"regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')]",
		},
		"there are no groups of groups": {
			`{schedulingPolicy: {basic: {}}, workloadRef: {workloadName: w, templateName: t}, parentCompositePodGroupName: p}`,
			"", "[spec.parentCompositePodGroupName: Forbidden]",
		},
		"there are no claims": {
			`{schedulingPolicy: {basic: {}}, resourceClaims: [{name: c, resourceClaimName: r}]}`, "",
			"[spec.resourceClaims: Forbidden: jobd does not support this: there are no ResourceClaims]",
		},
		"a gang's count may change": {`{schedulingPolicy: {gang: {minCount: 2}}}`, `{schedulingPolicy: {gang: {minCount: 3}}}`, "[]"},
		"the policy may not": {
			`{schedulingPolicy: {basic: {}}}`, `{schedulingPolicy: {gang: {minCount: 3}}}`,
			"[spec.schedulingPolicy.basic: Invalid value: null: field is immutable spec.schedulingPolicy.gang: Invalid value: " +
				"null: field cannot be cleared once set]",
		},
		"nor may the mode of disruption": {
			`{schedulingPolicy: {basic: {}}, disruptionMode: {all: {}}}`,
			`{schedulingPolicy: {basic: {}}, disruptionMode: {single: {}}}`,
			"[spec.disruptionMode: Invalid value: null: field is immutable]",
		},
	} {
		t.Run(rule, func(t *testing.T) {
			g := &schedulingv1beta1.PodGroup{Spec: *read[schedulingv1beta1.PodGroupSpec](t, c.spec)}
			g.Name, g.Namespace, g.ResourceVersion = "g", "ns", "1"
			SetPodGroupDefaults(g)
			errs := validatePodGroup(g)
			if c.was != "" {
				old := g.DeepCopy()
				old.Spec = *read[schedulingv1beta1.PodGroupSpec](t, c.was)
				SetPodGroupDefaults(old)
				errs = validatePodGroupUpdate(g, old)
			}
			if got := fmt.Sprint(errs); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestWorkloads(t *testing.T) {
	const gang = `{podGroupTemplates: [{name: t, schedulingPolicy: {gang: {minCount: 3}}}]}`
	for rule, c := range map[string]struct{ spec, was, want string }{
		"a gang":                 {gang, "", "[]"},
		"a template is required": {`{}`, "", "[spec: Invalid value: \"\": must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`]"},
		"a template has a name":  {`{podGroupTemplates: [{schedulingPolicy: {basic: {}}}]}`, "", "[spec.podGroupTemplates[0].name: Required value]"},
		"of its own": {
			`{podGroupTemplates: [{name: t, schedulingPolicy: {basic: {}}}, {name: t, schedulingPolicy: {basic: {}}}]}`, "",
			"[spec.podGroupTemplates[1]: Duplicate value: {\"name\":\"t\",\"schedulingPolicy\":{\"basic\":{}},\"schedulingConstraints\":null}]",
		},
		"there are no groups of groups": {
			`{compositePodGroupTemplates: [{name: t, schedulingPolicy: {basic: {}}}]}`, "",
			"[spec.compositePodGroupTemplates: Forbidden]",
		},
		"a gang's count may change": {`{podGroupTemplates: [{name: t, schedulingPolicy: {gang: {minCount: 2}}}]}`, gang, "[]"},
		"templates may not be added": {
			`{podGroupTemplates: [{name: t, schedulingPolicy: {gang: {minCount: 3}}}, {name: u, schedulingPolicy: {basic: {}}}]}`,
			gang, "[spec.podGroupTemplates[1]: Forbidden: item may not be added]",
		},
		"whose it is may not be changed": {
			`{controllerRef: {kind: Job, name: j}, podGroupTemplates: [{name: t, schedulingPolicy: {gang: {minCount: 3}}}]}`,
			gang, "[spec.controllerRef: Invalid value: null: field is immutable]",
		},
	} {
		t.Run(rule, func(t *testing.T) {
			w := &schedulingv1beta1.Workload{Spec: *read[schedulingv1beta1.WorkloadSpec](t, c.spec)}
			w.Name, w.Namespace, w.ResourceVersion = "w", "ns", "1"
			errs := validateWorkload(w)
			if c.was != "" {
				old := w.DeepCopy()
				old.Spec = *read[schedulingv1beta1.WorkloadSpec](t, c.was)
				errs = validateWorkloadUpdate(w, old)
			}
			if got := fmt.Sprint(errs); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
