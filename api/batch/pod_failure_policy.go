package batch

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/api/podspec"
)

// Limits of JobSpec.PodFailurePolicy.
const (
	maxFailureRules        = 20
	maxExitCodes           = 255
	maxConditionsOfOneRule = 20
)

// Exit is how a container ended.
type Exit struct {
	Container string
	Code      int32
}

// ExitsOf returns the containers of a pod with an exit code other than 0, main containers first. The others are nothing to
// a rule of a podFailurePolicy.
func ExitsOf(pod *corev1.Pod) (exits []Exit) {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range list {
			if end := list[i].State.Terminated; end != nil && end.ExitCode != 0 {
				exits = append(exits, Exit{list[i].Name, end.ExitCode})
			}
		}
	}
	return exits
}

// FailureRule returns the index of the rule that applies to a failed pod, which is the first that matches; -1 for none.
func FailureRule(policy *batchv1.PodFailurePolicy, exits []Exit, conditions []corev1.PodCondition) int {
	if policy == nil {
		return -1
	}
	return slices.IndexFunc(policy.Rules, func(rule batchv1.PodFailurePolicyRule) bool {
		exit, condition := MatchFailureRule(&rule, exits, conditions)
		return exit != nil || condition != nil
	})
}

// MatchFailureRule returns what of a failed pod a rule matches: how a container ended or a condition, and neither if it
// does not match.
func MatchFailureRule(
	rule *batchv1.PodFailurePolicyRule, exits []Exit, conditions []corev1.PodCondition,
) (*Exit, *corev1.PodCondition) {
	if codes := rule.OnExitCodes; codes != nil {
		for i := range exits {
			e := &exits[i]
			if codes.ContainerName != nil && *codes.ContainerName != e.Container {
				continue
			}
			if slices.Contains(codes.Values, e.Code) == (codes.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn) {
				return e, nil
			}
		}
		return nil, nil
	}
	for _, pattern := range rule.OnPodConditions {
		for i := range conditions {
			if c := &conditions[i]; c.Type == pattern.Type && c.Status == pattern.Status {
				return nil, c
			}
		}
	}
	return nil, nil
}

func validatePodFailurePolicy(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	rules := spec.PodFailurePolicy.Rules
	if len(rules) > maxFailureRules {
		errs = append(errs, field.TooMany(path.Child("rules"), len(rules), maxFailureRules))
	}
	for i := range rules {
		errs = append(errs, validateFailureRule(spec, &rules[i], path.Child("rules").Index(i))...)
	}
	return errs
}

func validateFailureRule(spec *batchv1.JobSpec, rule *batchv1.PodFailurePolicyRule, path *field.Path) field.ErrorList {
	errs := requiredOneOf(path.Child("action"), rule.Action, []batchv1.PodFailurePolicyAction{
		batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex,
		batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore,
	})
	if rule.Action == batchv1.PodFailurePolicyActionFailIndex && spec.BackoffLimitPerIndex == nil {
		errs = append(errs, field.Invalid(path.Child("action"), rule.Action,
			"requires the backoffLimitPerIndex to be set"))
	}
	if rule.OnExitCodes != nil {
		errs = append(errs, validateOnExitCodes(&spec.Template.Spec, rule.OnExitCodes, path.Child("onExitCodes"))...)
	}
	errs = append(errs, validateOnPodConditions(rule.OnPodConditions, path.Child("onPodConditions"))...)
	switch byCode, byCondition := rule.OnExitCodes != nil, len(rule.OnPodConditions) > 0; {
	case byCode && byCondition:
		errs = append(errs, field.Invalid(path, field.OmitValueType{},
			"specifying both OnExitCodes and OnPodConditions is not supported"))
	case !byCode && !byCondition:
		errs = append(errs, field.Invalid(path, field.OmitValueType{},
			"specifying one of OnExitCodes and OnPodConditions is required"))
	}
	return errs
}

func validateOnExitCodes(
	pod *corev1.PodSpec, on *batchv1.PodFailurePolicyOnExitCodesRequirement, path *field.Path,
) field.ErrorList {
	errs := requiredOneOf(path.Child("operator"), on.Operator, []batchv1.PodFailurePolicyOnExitCodesOperator{
		batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn,
	})
	if on.ContainerName != nil && podspec.Find(pod, *on.ContainerName) == nil {
		errs = append(errs, field.Invalid(path.Child("containerName"), *on.ContainerName,
			"must be one of the container or initContainer names in the pod template"))
	}
	path = path.Child("values")
	switch n := len(on.Values); {
	case n == 0:
		errs = append(errs, field.Invalid(path, on.Values, "at least one value is required"))
	case n > maxExitCodes:
		errs = append(errs, field.TooMany(path, n, maxExitCodes))
	}
	seen := make(map[int32]bool, len(on.Values))
	for i, code := range on.Values {
		if code == 0 && on.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn {
			errs = append(errs, field.Invalid(path.Index(i), code, "must not be 0 for the In operator"))
		}
		if seen[code] {
			errs = append(errs, field.Duplicate(path.Index(i), code))
		}
		seen[code] = true
	}
	if !slices.IsSorted(on.Values) {
		errs = append(errs, field.Invalid(path, on.Values, "must be ordered"))
	}
	return errs
}

func validateOnPodConditions(
	patterns []batchv1.PodFailurePolicyOnPodConditionsPattern, path *field.Path,
) field.ErrorList {
	var errs field.ErrorList
	if len(patterns) > maxConditionsOfOneRule {
		errs = append(errs, field.TooMany(path, len(patterns), maxConditionsOfOneRule))
	}
	for i, pattern := range patterns {
		for _, msg := range utilvalidation.IsQualifiedName(string(pattern.Type)) {
			errs = append(errs, field.Invalid(path.Index(i).Child("type"), string(pattern.Type), msg))
		}
		errs = append(errs, requiredOneOf(path.Index(i).Child("status"), pattern.Status, []corev1.ConditionStatus{
			corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown,
		})...)
	}
	return errs
}

// printedFailurePolicy returns a policy in the form in which a cluster prints it in an error, as printedSuccessPolicy
// does.
func printedFailurePolicy(policy *batchv1.PodFailurePolicy) any {
	if policy == nil {
		return nil
	}
	type exitCodes struct {
		ContainerName *string
		Operator      batchv1.PodFailurePolicyOnExitCodesOperator
		Values        []int32
	}
	type condition struct {
		Type   corev1.PodConditionType
		Status corev1.ConditionStatus
	}
	type rule struct {
		Action          batchv1.PodFailurePolicyAction
		OnExitCodes     *exitCodes
		OnPodConditions []condition
	}
	var printed struct{ Rules []rule }
	if policy.Rules != nil {
		printed.Rules = []rule{}
	}
	for _, r := range policy.Rules {
		p := rule{Action: r.Action, OnExitCodes: (*exitCodes)(r.OnExitCodes)}
		if r.OnPodConditions != nil {
			p.OnPodConditions = []condition{}
		}
		for _, c := range r.OnPodConditions {
			p.OnPodConditions = append(p.OnPodConditions, condition(c))
		}
		printed.Rules = append(printed.Rules, p)
	}
	return printed
}
