package pod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
)

// restarts reports whether a container that has ended like this is restarted in its pod: because one of its restart
// policy rules says so, or else by its restart policy, which is the pod's unless it has its own.
func restarts(pod *corev1.Pod, c container, end *corev1.ContainerStateTerminated) bool {
	if c.ephemeral {
		return false
	}
	if ruleFor(c.spec, end) != nil {
		return true // both actions restart it
	}
	policy := pod.Spec.RestartPolicy
	if own := c.spec.RestartPolicy; own != nil {
		policy = corev1.RestartPolicy(*own)
	}
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return podspec.HasFailed(&pod.Spec, c.spec.Name, end)
	}
	// Always: but an init container that has succeeded is done.
	return !c.init || c.sidecar() || podspec.HasFailed(&pod.Spec, c.spec.Name, end)
}

// ruleFor returns the first of a container's restart policy rules that matches such an end, nil if none does.
func ruleFor(c *corev1.Container, end *corev1.ContainerStateTerminated) *corev1.ContainerRestartRule {
	for i := range c.RestartPolicyRules {
		codes := c.RestartPolicyRules[i].ExitCodes
		if codes == nil {
			continue
		}
		in := codes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn
		if slices.Contains(codes.Values, end.ExitCode) == in {
			return &c.RestartPolicyRules[i]
		}
	}
	return nil
}
