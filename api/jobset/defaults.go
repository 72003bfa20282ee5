package jobset

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// defaultGroup is the group of replicated Jobs that name none.
const defaultGroup = "default"

// setDefaults fills in what a JobSet's manifest left out. The templates of pods are kept as they are: their defaults are set when the
// Jobs are created.
func setDefaults(js *jobsetv1.JobSet) {
	spec := &js.Spec
	for i := range spec.ReplicatedJobs {
		group := &spec.ReplicatedJobs[i]
		if group.GroupName == "" {
			group.GroupName = defaultGroup
		}
		if group.Replicas == 0 {
			group.Replicas = 1
		}
		template := &group.Template.Spec
		if template.CompletionMode == nil {
			template.CompletionMode = ptr.To(batchv1.IndexedCompletion)
		}
		if template.Template.Spec.RestartPolicy == "" {
			template.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		}
	}
	if spec.SuccessPolicy == nil {
		spec.SuccessPolicy = &jobsetv1.SuccessPolicy{Operator: jobsetv1.OperatorAll}
	}
	if spec.StartupPolicy == nil {
		spec.StartupPolicy = &jobsetv1.StartupPolicy{StartupPolicyOrder: jobsetv1.AnyOrder}
	}
	if spec.Network == nil {
		spec.Network = &jobsetv1.Network{}
	}
	if spec.Network.EnableDNSHostnames == nil {
		spec.Network.EnableDNSHostnames = ptr.To(true)
	}
	if spec.Network.PublishNotReadyAddresses == nil {
		spec.Network.PublishNotReadyAddresses = ptr.To(true)
	}
	if policy := spec.FailurePolicy; policy != nil {
		if policy.RestartStrategy == "" {
			policy.RestartStrategy = jobsetv1.Recreate
		}
		for i := range policy.Rules {
			if policy.Rules[i].Name == "" {
				policy.Rules[i].Name = fmt.Sprintf("failurePolicyRule%d", i)
			}
		}
	}
	for i := range spec.VolumeClaimPolicies {
		policy := &spec.VolumeClaimPolicies[i]
		if policy.RetentionPolicy == nil {
			policy.RetentionPolicy = &jobsetv1.VolumeRetentionPolicy{}
		}
		if policy.RetentionPolicy.WhenDeleted == nil {
			policy.RetentionPolicy.WhenDeleted = ptr.To(jobsetv1.RetentionPolicyDelete)
		}
	}
}
