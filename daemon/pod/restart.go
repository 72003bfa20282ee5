package pod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// restarts tells whether a container that ended like this is started again in its pod: by a rule of its own for such
// an end, or else by its restart policy, which is the pod's unless it has one.
func restarts(pod *corev1.Pod, c container, end *corev1.ContainerStateTerminated) bool {
	if ruleFor(c.spec, end) != nil {
		return true // both actions start it
	}
	policy := pod.Spec.RestartPolicy
	if own := c.spec.RestartPolicy; own != nil {
		policy = corev1.RestartPolicy(*own)
	}
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return end.ExitCode != 0
	}
	// Always: an init container that is done is done.
	return !c.init || c.sidecar() || end.ExitCode != 0
}

// ruleFor gives the first of a container's rules that is about such an end, or nil.
func ruleFor(c *corev1.Container, end *corev1.ContainerStateTerminated) *corev1.ContainerRestartRule {
	for i := range c.RestartPolicyRules {
		codes := c.RestartPolicyRules[i].ExitCodes
		if codes != nil && slices.Contains(codes.Values, end.ExitCode) == (codes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn) {
			return &c.RestartPolicyRules[i]
		}
	}
	return nil
}
