// Package coordination holds the rules of coordination.k8s.io/v1: Lease, by which clients elect a leader, as the
// description that LeaseKind returns. They touch nothing but their arguments.
package coordination

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/kind"
)

// validateLease checks a new lease.
func validateLease(lease *coordinationv1.Lease) field.ErrorList {
	errs := validation.ValidateObjectMeta(&lease.ObjectMeta, true, validation.NameIsDNSSubdomain,
		field.NewPath("metadata"))
	return append(errs, validateLeaseSpec(&lease.Spec, field.NewPath("spec"))...)
}

// validateLeaseUpdate checks a changed lease.
func validateLeaseUpdate(lease, old *coordinationv1.Lease) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&lease.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, validateLeaseSpec(&lease.Spec, field.NewPath("spec"))...)
}

func validateLeaseSpec(spec *coordinationv1.LeaseSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if d := spec.LeaseDurationSeconds; d != nil && *d <= 0 {
		errs = append(errs, field.Invalid(path.Child("leaseDurationSeconds"), *d, "must be greater than 0"))
	}
	if n := spec.LeaseTransitions; n != nil && *n < 0 {
		errs = append(errs, field.Invalid(path.Child("leaseTransitions"), *n, "must be greater than or equal to 0"))
	}
	return errs
}

// LeaseKind describes coordination.k8s.io/v1 Leases.
func LeaseKind() *kind.Kind {
	return kind.Of[coordinationv1.Lease, coordinationv1.LeaseList](kind.Description[*coordinationv1.Lease]{
		GroupVersion: coordinationv1.SchemeGroupVersion,
		Name:         "Lease",
		Namespaced:   true,
		Table: kind.Columns[*coordinationv1.Lease]{
			kind.NameColumn[*coordinationv1.Lease](),
			{Name: "Holder", Description: coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"],
				Cell: func(lease *coordinationv1.Lease, _ time.Time) any { return ptr.Deref(lease.Spec.HolderIdentity, "") }},
			kind.AgeColumn[*coordinationv1.Lease](),
		},
		Rules: kind.Rules[*coordinationv1.Lease]{
			Check:       validateLease,
			CheckUpdate: validateLeaseUpdate,
			CreateOnPut: true,
		},
	})
}
