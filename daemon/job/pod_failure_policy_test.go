package job

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
)

func onExit(a batchv1.PodFailurePolicyAction, container *string, op batchv1.PodFailurePolicyOnExitCodesOperator, codes ...int32) batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{Action: a, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
		ContainerName: container, Operator: op, Values: codes,
	}}
}

func onCondition(a batchv1.PodFailurePolicyAction, t corev1.PodConditionType, s corev1.ConditionStatus) batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{Action: a, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: t, Status: s}}}
}

func TestPodFailurePolicyRules(t *testing.T) {
	const (
		in, notIn                                       = batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn
		failJob, ignore                                 = batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore
		count, failIndex                                = batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex
		yes, no                                         = corev1.ConditionTrue, corev1.ConditionFalse
		none             batchv1.PodFailurePolicyAction = ""
	)
	pod := &Pod{
		Name:       "j-abcde",
		Exits:      []batch.Exit{{Container: "main", Code: 3}, {Container: "side", Code: 42}, {Container: "init", Code: 7}},
		Conditions: []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: yes}},
	}
	for name, c := range map[string]struct {
		rules   []batchv1.PodFailurePolicyRule
		action  batchv1.PodFailurePolicyAction
		message string
	}{
		"no rule":         {nil, none, ""},
		"no rule matches": {[]batchv1.PodFailurePolicyRule{onExit(failJob, nil, in, 1)}, none, ""},
		"an exit code in a list": {
			[]batchv1.PodFailurePolicyRule{onExit(failJob, nil, in, 1, 42)}, failJob,
			"Container side for pod n/j-abcde failed with exit code 42 matching FailJob rule at index 0",
		},
		"the first container is named": {
			[]batchv1.PodFailurePolicyRule{onExit(failJob, nil, in, 3, 42)}, failJob,
			"Container main for pod n/j-abcde failed with exit code 3 matching FailJob rule at index 0",
		},
		"an exit code not in a list": {
			[]batchv1.PodFailurePolicyRule{onExit(failJob, nil, notIn, 3)}, failJob,
			"Container side for pod n/j-abcde failed with exit code 42 matching FailJob rule at index 0",
		},
		"all exit codes are in a list": {[]batchv1.PodFailurePolicyRule{onExit(failJob, nil, notIn, 3, 7, 42)}, none, ""},
		"only the container asked for": {[]batchv1.PodFailurePolicyRule{onExit(failJob, ptr.To("main"), in, 42)}, none, ""},
		"an init container":            {[]batchv1.PodFailurePolicyRule{onExit(failIndex, ptr.To("init"), in, 7)}, failIndex, ""},
		"the first rule that matches": {
			[]batchv1.PodFailurePolicyRule{onExit(count, nil, in, 1), onExit(ignore, nil, in, 3), onExit(failJob, nil, in, 3)}, ignore, "",
		},
		"a rule may only count": {[]batchv1.PodFailurePolicyRule{onExit(count, nil, in, 3), onExit(failJob, nil, in, 3)}, count, ""},
		"a condition": {
			[]batchv1.PodFailurePolicyRule{onCondition(failJob, corev1.DisruptionTarget, yes)}, failJob,
			"Pod n/j-abcde has condition DisruptionTarget matching FailJob rule at index 0",
		},
		"a condition of another status": {[]batchv1.PodFailurePolicyRule{onCondition(ignore, corev1.DisruptionTarget, no)}, none, ""},
		"another condition":             {[]batchv1.PodFailurePolicyRule{onCondition(ignore, "Other", yes)}, none, ""},
	} {
		t.Run(name, func(t *testing.T) {
			action, message := match(&batchv1.PodFailurePolicy{Rules: c.rules}, "n", pod)
			if action != c.action || message != c.message {
				t.Errorf("%q %q", action, message)
			}
		})
	}
}
