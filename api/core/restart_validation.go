package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	maxRestartRules     = 20
	maxRestartExitCodes = 255
)

// validateRestart checks the restart policy of a container and its rules for single exit codes.
func validateRestart(c *corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case c.RestartPolicy != nil:
		errs = append(errs, oneOf(path.Child("restartPolicy"), *c.RestartPolicy, []corev1.ContainerRestartPolicy{
			corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever,
			corev1.ContainerRestartPolicyOnFailure,
		})...)
	case len(c.RestartPolicyRules) > 0:
		errs = append(errs, field.Required(path.Child("restartPolicy"),
			"must specify restartPolicy when restart rules are used"))
	}
	path = path.Child("restartPolicyRules")
	if n := len(c.RestartPolicyRules); n > maxRestartRules {
		errs = append(errs, field.TooMany(path, n, maxRestartRules))
	}
	for i, rule := range c.RestartPolicyRules {
		path := path.Index(i)
		errs = append(errs, oneOf(path.Child("action"), rule.Action, []corev1.ContainerRestartRuleAction{
			corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers,
		})...)
		path = path.Child("exitCodes")
		if rule.ExitCodes == nil {
			errs = append(errs, field.Required(path, "must be specified"))
			continue
		}
		errs = append(errs, oneOf(path.Child("operator"), rule.ExitCodes.Operator, []corev1.ContainerRestartRuleOnExitCodesOperator{
			corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn,
		})...)
		if n := len(rule.ExitCodes.Values); n > maxRestartExitCodes {
			errs = append(errs, field.TooMany(path.Child("values"), n, maxRestartExitCodes))
		}
	}
	return errs
}
