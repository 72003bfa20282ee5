package rbac

import (
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/internal/printable"
)

// maxName is how long the name of a role or binding may be, in bytes. In a cluster only its database says.
const maxName = 512

// validName checks the name of a role or binding, which may contain colons and upper case, and spaces. In a cluster it may contain
// anything, also what acts on the terminal of whoever removes it.
func validName(name string, _ bool) []string {
	all := content.IsPathSegmentName(name)
	if len(name) > maxName {
		all = append(all, fmt.Sprintf("must be no more than %d bytes", maxName))
	}
	if printable.Line(name) != name {
		all = append(all, "may not contain control characters, nor others that cannot be seen")
	}
	return all
}

func validateMeta(m *metav1.ObjectMeta, namespaced bool) field.ErrorList {
	return validation.ValidateObjectMeta(m, namespaced, validName, field.NewPath("metadata"))
}

func validateMetaUpdate(m, old *metav1.ObjectMeta) field.ErrorList {
	return validation.ValidateObjectMetaUpdate(m, old, field.NewPath("metadata"))
}

func validateRole(r *rbacv1.Role) field.ErrorList {
	return append(validateMeta(&r.ObjectMeta, true), validateRules(r.Rules, true)...)
}

func validateRoleUpdate(r, old *rbacv1.Role) field.ErrorList {
	return append(validateRole(r), validateMetaUpdate(&r.ObjectMeta, &old.ObjectMeta)...)
}

func validateClusterRole(r *rbacv1.ClusterRole) field.ErrorList {
	errs := append(validateMeta(&r.ObjectMeta, false), validateRules(r.Rules, false)...)
	if r.AggregationRule == nil {
		return errs
	}
	selectors := field.NewPath("aggregationRule", "clusterRoleSelectors")
	if len(r.AggregationRule.ClusterRoleSelectors) == 0 {
		errs = append(errs, field.Required(selectors,
			"at least one clusterRoleSelector required if aggregationRule is non-nil"))
	}
	for i, selector := range r.AggregationRule.ClusterRoleSelectors {
		at := selectors.Index(i)
		errs = append(errs, metav1validation.ValidateLabelSelector(&selector,
			metav1validation.LabelSelectorValidationOptions{}, at)...)
		if s, err := metav1.LabelSelectorAsSelector(&selector); err != nil {
			errs = append(errs, field.Invalid(at, s, "invalid label selector."))
		}
	}
	return errs
}

func validateClusterRoleUpdate(r, old *rbacv1.ClusterRole) field.ErrorList {
	return append(validateClusterRole(r), validateMetaUpdate(&r.ObjectMeta, &old.ObjectMeta)...)
}

func validateRules(rules []rbacv1.PolicyRule, namespaced bool) (errs field.ErrorList) {
	for i, rule := range rules {
		errs = append(errs, validateRule(rule, namespaced, field.NewPath("rules").Index(i))...)
	}
	return errs
}

func validateRule(rule rbacv1.PolicyRule, namespaced bool, at *field.Path) (errs field.ErrorList) {
	if len(rule.Verbs) == 0 {
		errs = append(errs, field.Required(at.Child("verbs"), ""))
	}
	if urls := at.Child("nonResourceURLs"); len(rule.NonResourceURLs) > 0 {
		if namespaced {
			errs = append(errs, field.Invalid(urls, rule.NonResourceURLs,
				"namespaced rules cannot apply to non-resource URLs"))
		}
		if len(rule.APIGroups) > 0 || len(rule.Resources) > 0 || len(rule.ResourceNames) > 0 {
			errs = append(errs, field.Invalid(urls, rule.NonResourceURLs,
				"rules cannot apply to both regular resources and non-resource URLs"))
		}
		return errs
	}
	if len(rule.APIGroups) == 0 {
		errs = append(errs, field.Required(at.Child("apiGroups"), "resource rules must supply at least one api group"))
	}
	if len(rule.Resources) == 0 {
		errs = append(errs, field.Required(at.Child("resources"), "resource rules must supply at least one resource"))
	}
	return errs
}

func validateRoleBinding(b *rbacv1.RoleBinding) field.ErrorList {
	errs := validateMeta(&b.ObjectMeta, true)
	return append(errs, validateBinding(b.RoleRef, b.Subjects, []string{"Role", "ClusterRole"}, true)...)
}

func validateRoleBindingUpdate(b, old *rbacv1.RoleBinding) field.ErrorList {
	errs := append(validateRoleBinding(b), validateMetaUpdate(&b.ObjectMeta, &old.ObjectMeta)...)
	return append(errs, validation.ValidateImmutableField(b.RoleRef, old.RoleRef, field.NewPath("roleRef"))...)
}

func validateClusterRoleBinding(b *rbacv1.ClusterRoleBinding) field.ErrorList {
	errs := validateMeta(&b.ObjectMeta, false)
	return append(errs, validateBinding(b.RoleRef, b.Subjects, []string{"ClusterRole"}, false)...)
}

func validateClusterRoleBindingUpdate(b, old *rbacv1.ClusterRoleBinding) field.ErrorList {
	errs := append(validateClusterRoleBinding(b), validateMetaUpdate(&b.ObjectMeta, &old.ObjectMeta)...)
	return append(errs, validation.ValidateImmutableField(b.RoleRef, old.RoleRef, field.NewPath("roleRef"))...)
}

// validateBinding checks the role that a binding refers to, of one of these kinds, and who it is granted to.
func validateBinding(
	role rbacv1.RoleRef, subjects []rbacv1.Subject, kinds []string, namespaced bool,
) (errs field.ErrorList) {
	at := field.NewPath("roleRef")
	if role.APIGroup != rbacv1.GroupName {
		errs = append(errs, field.NotSupported(at.Child("apiGroup"), role.APIGroup, []string{rbacv1.GroupName}))
	}
	if !slices.Contains(kinds, role.Kind) {
		errs = append(errs, field.NotSupported(at.Child("kind"), role.Kind, kinds))
	}
	if role.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	}
	for _, msg := range validName(role.Name, false) {
		errs = append(errs, field.Invalid(at.Child("name"), role.Name, msg))
	}
	for i, s := range subjects {
		errs = append(errs, validateSubject(s, namespaced, field.NewPath("subjects").Index(i))...)
	}
	return errs
}

func validateSubject(s rbacv1.Subject, namespaced bool, at *field.Path) (errs field.ErrorList) {
	if s.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	}
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		if s.Name != "" {
			for _, msg := range validation.ValidateServiceAccountName(s.Name, false) {
				errs = append(errs, field.Invalid(at.Child("name"), s.Name, msg))
			}
		}
		if s.APIGroup != "" {
			errs = append(errs, field.NotSupported(at.Child("apiGroup"), s.APIGroup, []string{""}))
		}
		if !namespaced && s.Namespace == "" {
			errs = append(errs, field.Required(at.Child("namespace"), ""))
		}
	case rbacv1.UserKind, rbacv1.GroupKind:
		if s.APIGroup != rbacv1.GroupName {
			errs = append(errs, field.NotSupported(at.Child("apiGroup"), s.APIGroup, []string{rbacv1.GroupName}))
		}
	default:
		errs = append(errs, field.NotSupported(at.Child("kind"), s.Kind,
			[]string{rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind}))
	}
	return errs
}
