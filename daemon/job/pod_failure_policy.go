package job

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/jobd/jobd/api/batch"
)

// match applies spec.podFailurePolicy to a failed pod. It returns the action of the first rule that matches, empty for
// none, and for FailJob the message for the Job's condition.
func match(policy *batchv1.PodFailurePolicy, namespace string, p *Pod) (batchv1.PodFailurePolicyAction, string) {
	i := batch.FailureRule(policy, p.Exits, p.Conditions)
	if i < 0 {
		return "", ""
	}
	rule := &policy.Rules[i]
	if rule.Action != batchv1.PodFailurePolicyActionFailJob {
		return rule.Action, ""
	}
	return rule.Action, fmt.Sprintf("%s matching %s rule at index %d", whyMatch(rule, namespace, p), rule.Action, i)
}

// whyMatch returns why a rule matches, empty if it does not.
func whyMatch(rule *batchv1.PodFailurePolicyRule, namespace string, p *Pod) string {
	switch exit, condition := batch.MatchFailureRule(rule, p.Exits, p.Conditions); {
	case exit != nil:
		return fmt.Sprintf("Container %s for pod %s/%s failed with exit code %d", exit.Container, namespace, p.Name, exit.Code)
	case condition != nil:
		return fmt.Sprintf("Pod %s/%s has condition %s", namespace, p.Name, condition.Type)
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
