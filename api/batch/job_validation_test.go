package batch

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func said(errs field.ErrorList) string {
	var out []string
	for _, e := range errs {
		out = append(out, e.Error())
	}
	return strings.Join(out, "\n")
}

// What the recorded answers do not show.
func TestJobIsValidated(t *testing.T) {
	codes := strings.Repeat("1,", 255) + "1"
	for _, tc := range []struct{ name, spec, want string }{
		{"counts are not negative", `{activeDeadlineSeconds: -1, ttlSecondsAfterFinished: -1, completionMode: Indexed, completions: 1, backoffLimitPerIndex: -1, maxFailedIndexes: -1}`,
			`spec.activeDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0
spec.ttlSecondsAfterFinished: Invalid value: -1: must be greater than or equal to 0
spec.backoffLimitPerIndex: Invalid value: -1: must be greater than or equal to 0
spec.maxFailedIndexes: Invalid value: -1: must be greater than or equal to 0`},
		{"an Indexed Job has completions", `{completionMode: Indexed, parallelism: 1}`, `spec.completions: Required value: when completion mode is Indexed`},
		{"not more indexes fail than there are", `{completionMode: Indexed, completions: 2, backoffLimitPerIndex: 1, maxFailedIndexes: 3}`,
			`spec.maxFailedIndexes: Invalid value: 3: must be less than or equal to completions`},
		{"a great many completions by index are bounded", `{completionMode: Indexed, completions: 100001, parallelism: 10001, backoffLimitPerIndex: 1}`,
			`spec.maxFailedIndexes: Required value: must be specified when completions is above 100000
spec.parallelism: Invalid value: 10001: must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index`},
		{"and so are the failures among them", `{completionMode: Indexed, completions: 200000, parallelism: 1, backoffLimitPerIndex: 1, maxFailedIndexes: 100001}`,
			`spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to 100000
spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index`},
		{"without limits by index they are not", `{completionMode: Indexed, completions: 100001, parallelism: 10001}`, ``},
		{"a manager's name is short", `managedBy: ` + strings.Repeat("a", 60) + `.io/x`, `spec.managedBy: Too long: may not be more than 63 bytes`},
		{"a rule has an action", `podFailurePolicy: {rules: [{onPodConditions: [{type: A}]}]}`,
			`spec.podFailurePolicy.rules[0].action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]`},
		{"a rule has one kind of condition", `podFailurePolicy: {rules: [{action: Count, onExitCodes: {operator: In, values: [1]}, onPodConditions: [{type: A}]}]}`,
			`spec.podFailurePolicy.rules[0]: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported`},
		{"exit codes are ordered and different", `podFailurePolicy: {rules: [{action: Count, onExitCodes: {operator: NotIn, values: [3, 0, 3]}}]}`,
			`spec.podFailurePolicy.rules[0].onExitCodes.values[2]: Duplicate value: 3
spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [3,0,3]: must be ordered`},
		{"exit codes have an operator", `podFailurePolicy: {rules: [{action: Count, onExitCodes: {values: [1]}}, {action: Count, onExitCodes: {operator: Near, values: [1]}}]}`,
			`spec.podFailurePolicy.rules[0].onExitCodes.operator: Required value: valid values: ["In" "NotIn"]
spec.podFailurePolicy.rules[1].onExitCodes.operator: Unsupported value: "Near": supported values: "In", "NotIn"`},
		{"conditions have a type and a status", `podFailurePolicy: {rules: [{action: Count, onPodConditions: [{type: "a b"}, {type: A, status: Perhaps}]}]}`,
			`spec.podFailurePolicy.rules[0].onPodConditions[0].type: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
spec.podFailurePolicy.rules[0].onPodConditions[1].status: Unsupported value: "Perhaps": supported values: "False", "True", "Unknown"`},
		{"a success rule says something", `{completionMode: Indexed, completions: 2, successPolicy: {rules: [{}]}}`,
			`spec.successPolicy.rules[0]: Required value: at least one of succeededCount or succeededIndexes must be specified`},
		{"a success rule wants what there is", `{completionMode: Indexed, completions: 2, successPolicy: {rules: [{succeededCount: 3}, {succeededCount: -1}]}}`,
			`spec.successPolicy.rules[0].succeededCount: Invalid value: 3: must be less than or equal to 2 (the number of specified completions)
spec.successPolicy.rules[1].succeededCount: Invalid value: -1: must be greater than or equal to 0`},
		{"success rules are few", `{completionMode: Indexed, completions: 2, successPolicy: {rules: [` + strings.Repeat("{succeededCount: 1},", 21) + `]}}`,
			`spec.successPolicy.rules: Too many: 21: must have at most 20 items`},
		{"exit codes are at most 255", `podFailurePolicy: {rules: [{action: Count, onExitCodes: {operator: In, values: [` + codes + `]}}]}`,
			`spec.podFailurePolicy.rules[0].onExitCodes.values: Too many: 256: must have at most 255 items`},
		{"what the template cannot have is refused with it", `template: {spec: {resourceClaims: [{name: c, resourceClaimName: x}], containers: [{name: c, image: i}], restartPolicy: Never}}`,
			`spec.template.spec.resourceClaims: Forbidden: jobd does not support this: resource claims are not implemented yet; request a device that a CDI file describes instead`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := said(create(minimalJobWithTemplate(t, tc.spec), "u1"))
			if i := strings.Index(got, "\n"); strings.Contains(tc.want, "at most 255") && i > 0 {
				got = got[:i] // every further one is a duplicate
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func minimalJobWithTemplate(t *testing.T, spec string) *batchv1.Job {
	t.Helper()
	if strings.HasPrefix(spec, "template:") {
		job := minimalJob(t, "j", "")
		written := minimalSpec(t, spec)
		job.Spec.Template = written.Template
		return job
	}
	return minimalJob(t, "j", spec)
}

func TestNamesOfJobs(t *testing.T) {
	long := strings.Repeat("a", 62)
	for _, tc := range []struct {
		name, job, spec string
		fields          string
	}{
		{"63 characters are enough", long + "a", ``, ""},
		{"more do not fit the generated labels", long + "aa", ``, "spec.template.labels spec.template.labels"},
		{"a dot is possible", "a.b", ``, ""},
		{"but not in a host name", "a.b", `{completionMode: Indexed, completions: 1}`, "metadata.name"},
		{"an Indexed Job's pods have longer names", long, `{completionMode: Indexed, completions: 1}`, "metadata.name"},
		{"as long as they fit it is fine", long[:60], `{completionMode: Indexed, completions: 100}`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			job := minimalJob(t, tc.job, tc.spec)
			var fields []string
			for _, e := range create(job, "u1") {
				fields = append(fields, e.Field)
			}
			if got := strings.Join(fields, " "); got != tc.fields {
				t.Errorf("%q, want %q", got, tc.fields)
			}
		})
	}
}
