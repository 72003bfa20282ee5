package batch

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/schedulingv1/workloadbuilder"
	"k8s.io/utils/ptr"
)

// IsGang reports whether the pods of a Job are to start together, or wait together: because its manifest says so
// (JobSchedulingConfiguration), or, where Workloads are created automatically, because it runs one pod for each index.
func IsGang(spec *batchv1.JobSpec, automatic bool) bool {
	if spec.Template.Spec.SchedulingGroup != nil {
		return false // they have a group of their own
	}
	return spec.Scheduling != nil || automatic && automaticGang(spec)
}

// automaticGang reports whether a Job gets a Workload where they are created automatically: it is Indexed, and all its
// indexes run at once.
func automaticGang(spec *batchv1.JobSpec) bool {
	p := ptr.Deref(spec.Parallelism, 1)
	return spec.Scheduling == nil && spec.Template.Spec.SchedulingGroup == nil && isIndexed(spec) && p > 1 &&
		ptr.Deref(spec.Completions, 0) == p
}

// WorkloadItem returns how a Job's pods are to be scheduled, in the form that the builder of Workloads takes. A gang
// needs all the pods that run at a time unless it sets its minimum.
func WorkloadItem(name string, spec *batchv1.JobSpec, path *field.Path) *workloadbuilder.WorkloadItem {
	parallelism := ptr.Deref(spec.Parallelism, 1)
	policy := &workloadbuilder.SchedulingPolicy{Basic: &workloadbuilder.BasicSchedulingPolicy{}}
	if spec.Scheduling == nil {
		policy = &workloadbuilder.SchedulingPolicy{Gang: &workloadbuilder.GangSchedulingPolicy{}}
	}
	item := &workloadbuilder.WorkloadItem{
		Name: name, Path: path,
		DefaultConfig: &workloadbuilder.SchedulingConfig{
			Policy: policy, PriorityClassName: spec.Template.Spec.PriorityClassName,
		},
		Callbacks: []workloadbuilder.SchedulingConfigFunc{func(c *workloadbuilder.SchedulingConfig) {
			if gang := c.Policy.Gang; gang != nil && gang.MinCount == nil {
				gang.MinCount = ptr.To(max(1, parallelism))
			}
		}},
	}
	if s := spec.Scheduling; s != nil {
		item.Input = workloadbuilder.WorkloadInput{
			Policy: workloadbuilder.PolicyInput{
				PodGroupData: s.SchedulingPolicy, PathElements: []string{"schedulingPolicy"},
			},
			Constraints: workloadbuilder.ConstraintsInput{
				PodGroupData: s.SchedulingConstraints, PathElements: []string{"schedulingConstraints"},
			},
			DisruptionMode: workloadbuilder.DisruptionModeInput{
				PodGroupData: s.DisruptionMode, PathElements: []string{"disruptionMode"},
			},
			ResourceClaims: workloadbuilder.ResourceClaimsInput{
				PodGroupData: s.ResourceClaims, PathElements: []string{"resourceClaims"},
			},
		}
	}
	return item
}

// validateScheduling checks how pods are to be scheduled (JobSpec.Scheduling).
func validateScheduling(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	s := spec.Scheduling
	if s == nil {
		return nil
	}
	errs := workloadbuilder.NewBuilder(WorkloadItem("job", spec, path), workloadbuilder.BuildOptions{
		AllowedPolicies: []workloadbuilder.SchedulingPolicyOption{
			workloadbuilder.BasicPolicy, workloadbuilder.GangPolicy,
		},
		AllowedDisruptionModes: []workloadbuilder.DisruptionModeOption{
			workloadbuilder.SingleMode, workloadbuilder.AllMode,
		},
	}).Validate(context.Background(), workloadbuilder.ValidationInput{})
	if count, most := minCount(s), ptr.Deref(spec.Parallelism, 1); count != nil && *count > most {
		errs = append(errs, field.Invalid(path.Child("schedulingPolicy", "gang", "minCount"), *count,
			fmt.Sprintf("must not be greater than parallelism (%d)", most)))
	}
	if len(s.ResourceClaims) > 0 {
		errs = append(errs, field.Forbidden(path.Child("resourceClaims"),
			"jobd does not support this: there are no ResourceClaims"))
	}
	return errs
}

// validateSchedulingUpdate allows only the number of pods that a gang needs to change.
func validateSchedulingUpdate(now, was *batchv1.JobSchedulingConfiguration, path *field.Path) field.ErrorList {
	ctx, op := context.Background(), operation.Operation{Type: operation.Update}
	errs := validate.UpdatePointer(ctx, op, path, now, was, validate.NoSet, validate.NoUnset)
	if now == nil || was == nil {
		return errs
	}
	policy := path.Child("schedulingPolicy")
	errs = append(errs, validate.UpdatePointer(ctx, op, policy, now.SchedulingPolicy, was.SchedulingPolicy,
		validate.NoSet, validate.NoUnset)...)
	if n, w := now.SchedulingPolicy, was.SchedulingPolicy; n != nil && w != nil {
		errs = append(errs, validation.ValidateImmutableField(n.Basic, w.Basic, policy.Child("basic"))...)
		errs = append(errs, validate.UpdatePointer(ctx, op, policy.Child("gang"), n.Gang, w.Gang, validate.NoSet,
			validate.NoUnset)...)
	}
	errs = append(errs, validation.ValidateImmutableField(now.SchedulingConstraints, was.SchedulingConstraints,
		path.Child("schedulingConstraints"))...)
	errs = append(errs, validation.ValidateImmutableField(now.DisruptionMode, was.DisruptionMode,
		path.Child("disruptionMode"))...)
	return append(errs, validation.ValidateImmutableField(now.ResourceClaims, was.ResourceClaims,
		path.Child("resourceClaims"))...)
}

func minCount(s *batchv1.JobSchedulingConfiguration) *int32 {
	if s.SchedulingPolicy == nil || s.SchedulingPolicy.Gang == nil {
		return nil
	}
	return s.SchedulingPolicy.Gang.MinCount
}

// ValidateAutomaticGangUpdate is called where Workloads are created automatically. It refuses to scale a Job that has one.
func ValidateAutomaticGangUpdate(job, old *batchv1.Job) field.ErrorList {
	if !automaticGang(&old.Spec) || ptr.Deref(job.Spec.Parallelism, 1) == ptr.Deref(old.Spec.Parallelism, 1) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "parallelism"), job.Spec.Parallelism,
		"field is immutable while all pods of the Job are scheduled as a gang")}
}

func schedulingWarnings(spec *batchv1.JobSpec, path *field.Path) []string {
	s, path := spec.Scheduling, path.Child("scheduling")
	switch {
	case s == nil:
		return nil
	case spec.Template.Spec.SchedulingGroup != nil:
		return []string{fmt.Sprintf("%s: has no effect: the pods are of a group that the template names", path)}
	case s.SchedulingConstraints != nil && len(s.SchedulingConstraints.Topology) > 0:
		return []string{fmt.Sprintf("%s: has no effect in jobd: there is one node",
			path.Child("schedulingConstraints"))}
	}
	return nil
}
