package jobset

import (
	"k8s.io/apimachinery/pkg/util/sets"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// succeeded applies the success policy: whether as many Jobs of the groups that it names have succeeded as it wants, one or all.
func (d *decision) succeeded() bool {
	policy := d.js.Spec.SuccessPolicy
	if policy == nil { // as the default has it
		policy = &jobsetv1.SuccessPolicy{Operator: jobsetv1.OperatorAll}
	}
	targets := sets.New(policy.TargetReplicatedJobs...)
	done, wanted, any := 0, 0, false
	for i := range d.js.Spec.ReplicatedJobs {
		group := &d.js.Spec.ReplicatedJobs[i]
		complete := len(d.r.of(group.Name).success)
		any = any || complete > 0
		if len(targets) > 0 && !targets.Has(group.Name) {
			continue
		}
		done += complete
		wanted += int(group.Replicas)
	}
	if policy.Operator == jobsetv1.OperatorAny {
		wanted = 1
	}
	return any && done >= wanted
}
