package job

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
)

// match applies spec.podFailurePolicy to a failed pod. It returns the action of the first rule that matches, empty for
// none, and for FailJob the message for the Job's condition.
func match(policy *batchv1.PodFailurePolicy, namespace string, p *Pod) (batchv1.PodFailurePolicyAction, string) {
	if policy == nil {
		return "", ""
	}
	for i := range policy.Rules {
		rule := &policy.Rules[i]
		if why := matchRule(rule, namespace, p); why != "" {
			if rule.Action != batchv1.PodFailurePolicyActionFailJob {
				return rule.Action, ""
			}
			return rule.Action, fmt.Sprintf("%s matching %s rule at index %d", why, rule.Action, i)
		}
	}
	return "", ""
}

// matchRule returns why a rule matches, empty if it does not.
func matchRule(rule *batchv1.PodFailurePolicyRule, namespace string, p *Pod) string {
	if codes := rule.OnExitCodes; codes != nil {
		for _, e := range p.Exits {
			if codes.ContainerName != nil && *codes.ContainerName != e.Container || e.Code == 0 {
				continue
			}
			if slices.Contains(codes.Values, e.Code) == (codes.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn) {
				return fmt.Sprintf("Container %s for pod %s/%s failed with exit code %d", e.Container, namespace,
					p.Name, e.Code)
			}
		}
		return ""
	}
	for _, pattern := range rule.OnPodConditions {
		for i := range p.Conditions {
			if c := &p.Conditions[i]; c.Type == pattern.Type && c.Status == pattern.Status {
				return fmt.Sprintf("Pod %s/%s has condition %s", namespace, p.Name, pattern.Type)
			}
		}
	}
	return ""
}

// failJob returns the verdict of a FailJob rule. Of several pods that matched one, the first that ended is named.
func (r *Record) failJob() *verdict {
	var first *pod
	for p := range r.failJobs {
		if first == nil || earlier(p, first) {
			first = p
		}
	}
	if first == nil {
		return nil
	}
	return failure(batchv1.JobReasonPodFailurePolicy, r.failJobs[first])
}

func earlier(p, q *pod) bool {
	if p.finished != q.finished {
		return p.finished < q.finished
	}
	if p.created != q.created {
		return p.created < q.created
	}
	return p.name < q.name
}
