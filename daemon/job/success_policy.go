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

// holds reports whether it is met, where so many indexes have succeeded in all. While none has, it is not, and one that names only indexes
// beyond spec.completions never is.
func (r *successRule) holds(succeeded int) bool {
	return succeeded > 0 && r.have >= r.need && (r.indexes == nil || r.indexes.Len() > 0)
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
		switch count := from.SucceededCount; {
		case count == nil:
		case to.indexes == nil:
			to.need = int(*count)
		default: // all of them are enough if spec.completions has left fewer than the rule was written for
			to.need = min(to.need, int(*count))
		}
	}
	return rules
}

func (r *Record) successPolicyMet() *verdict {
	for i := range r.successRules {
		if r.successRules[i].holds(r.completed.Len()) {
			return &verdict{
				batchv1.JobSuccessCriteriaMet, batchv1.JobReasonSuccessPolicy,
				fmt.Sprintf("Matched rules at index %d", i),
			}
		}
	}
	return nil
}
