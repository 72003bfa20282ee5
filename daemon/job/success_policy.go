package job

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
)

// successRule is a rule of spec.successPolicy, with how many succeeded indexes it needs and has.
type successRule struct {
	indexes *Indexes // nil: all
	need    int
	have    int
}

func successRules(policy *batchv1.SuccessPolicy, completions int32, completed *Indexes) []successRule {
	if policy == nil {
		return nil
	}
	rules := make([]successRule, len(policy.Rules))
	for i := range policy.Rules {
		from, to := &policy.Rules[i], &rules[i]
		to.have = completed.Len()
		if from.SucceededIndexes != nil {
			to.indexes = ParseIndexes(*from.SucceededIndexes, completions)
			to.need = to.indexes.Len()
			to.have = to.indexes.common(completed)
		}
		if from.SucceededCount != nil {
			to.need = int(*from.SucceededCount)
		}
	}
	return rules
}

func (r *Record) successPolicyMet() *verdict {
	for i := range r.successRules {
		if rule := &r.successRules[i]; rule.have >= rule.need {
			return &verdict{
				batchv1.JobSuccessCriteriaMet, batchv1.JobReasonSuccessPolicy,
				fmt.Sprintf("Matched rules at index %d", i),
			}
		}
	}
	return nil
}
