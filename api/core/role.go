package core

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// RoleAnnotation grants a ServiceAccount a role in its namespace.
const RoleAnnotation = "jobd.dev/role"

// The three roles. Each may do everything that the one before it may.
const (
	RoleRead   = "read"   // see everything but secrets
	RoleSubmit = "submit" // run Jobs and pods, and what they are made of
	RoleAdmin  = "admin"
)

// CheckRole returns an error when there is no role of that name.
func CheckRole(name string) error {
	if !slices.Contains([]string{RoleRead, RoleSubmit, RoleAdmin}, name) {
		return fmt.Errorf("there is no role %q: it is read, submit or admin", name)
	}
	return nil
}

func validateRole(sa *corev1.ServiceAccount) field.ErrorList {
	role, ok := sa.Annotations[RoleAnnotation]
	if !ok || CheckRole(role) == nil {
		return nil
	}
	return field.ErrorList{field.NotSupported(field.NewPath("metadata", "annotations").Key(RoleAnnotation), role,
		[]string{RoleRead, RoleSubmit, RoleAdmin})}
}
