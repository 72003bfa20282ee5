package scheduling

import (
	"context"
	"fmt"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The rules of Workloads and PodGroups come with their types, generated, but for v1alpha3 only. Both versions have the
// same form on the wire.

// operationOf is a write, of a new object if there is no old one. The options stand for features of clusters: groups of
// groups are not among them, since jobd has no CompositePodGroups.
func operationOf(update bool) operation.Operation {
	op := operation.Operation{Type: operation.Create, Options: map[string]bool{
		"TopologyAwareWorkloadScheduling": true, "CompositePodGroup": false, "PodGroupPreemptionPolicy": false,
	}}
	if update {
		op.Type = operation.Update
	}
	return op
}

type wire interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

func convert(from, to wire) error {
	data, err := from.Marshal()
	if err == nil {
		err = to.Unmarshal(data)
	}
	if err != nil {
		return fmt.Errorf("convert %T: %w", from, err)
	}
	return nil
}

// checked converts a part of an object, and that of the old one if there is one, and has it validated.
func checked[T any, P interface {
	*T
	wire
}](now, old wire, path *field.Path, validate func(context.Context, operation.Operation, *field.Path, *T, *T) field.ErrorList) field.ErrorList {
	to, was := P(new(T)), (*T)(nil)
	if err := convert(now, to); err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	if old != nil {
		was = new(T)
		if err := convert(old, P(was)); err != nil {
			return field.ErrorList{field.InternalError(path, err)}
		}
	}
	return validate(context.Background(), operationOf(old != nil), path, (*T)(to), was)
}

func validateWorkloadSpec(
	spec *schedulingv1beta1.WorkloadSpec, old *schedulingv1beta1.WorkloadSpec, path *field.Path,
) field.ErrorList {
	var was wire
	if old != nil {
		was = old
	}
	errs := checked[schedulingv1alpha3.WorkloadSpec](spec, was, path, schedulingv1alpha3.Validate_WorkloadSpec)
	for i := range spec.PodGroupTemplates {
		errs = append(errs, validateClaims(spec.PodGroupTemplates[i].ResourceClaims,
			path.Child("podGroupTemplates").Index(i))...)
	}
	return errs
}

func validatePodGroupSpec(
	spec *schedulingv1beta1.PodGroupSpec, old *schedulingv1beta1.PodGroupSpec, path *field.Path,
) field.ErrorList {
	var was wire
	if old != nil {
		was = old
	}
	errs := checked[schedulingv1alpha3.PodGroupSpec](spec, was, path, schedulingv1alpha3.Validate_PodGroupSpec)
	return append(errs, validateClaims(spec.ResourceClaims, path)...)
}

func validatePodGroupStatus(status, old *schedulingv1beta1.PodGroupStatus, path *field.Path) field.ErrorList {
	return checked[schedulingv1alpha3.PodGroupStatus](status, old, path, schedulingv1alpha3.Validate_PodGroupStatus)
}

func validateClaims(claims []schedulingv1beta1.PodGroupResourceClaim, path *field.Path) field.ErrorList {
	if len(claims) == 0 {
		return nil
	}
	return field.ErrorList{field.Forbidden(path.Child("resourceClaims"),
		"jobd does not support this: there are no ResourceClaims")}
}

// topologyWarning is for constraints, which one node always meets.
func topologyWarning(constraints *schedulingv1beta1.PodGroupSchedulingConstraints, path *field.Path) []string {
	if constraints == nil || len(constraints.Topology) == 0 {
		return nil
	}
	return []string{path.Child("schedulingConstraints").String() + ": has no effect in jobd: there is one node"}
}
