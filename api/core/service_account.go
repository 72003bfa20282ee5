package core

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/api/kind"
)

// DefaultServiceAccount is the name of the ServiceAccount that every namespace has and that pods get which name none.
const DefaultServiceAccount = "default"

// prepareServiceAccount drops everything except the names from its references to secrets: they are in its own
// namespace.
func prepareServiceAccount(sa *corev1.ServiceAccount) {
	for i, ref := range sa.Secrets {
		sa.Secrets[i] = corev1.ObjectReference{Name: ref.Name}
	}
}

// validateServiceAccount checks a new service account.
func validateServiceAccount(sa *corev1.ServiceAccount) field.ErrorList {
	errs := validation.ValidateObjectMeta(&sa.ObjectMeta, true, validation.ValidateServiceAccountName,
		field.NewPath("metadata"))
	return append(errs, validateRole(sa)...)
}

// validateServiceAccountUpdate checks a changed service account.
func validateServiceAccountUpdate(sa, old *corev1.ServiceAccount) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&sa.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, validateServiceAccount(sa)...)
}

// ServiceAccountKind describes v1 ServiceAccounts.
func ServiceAccountKind() *kind.Kind {
	return kind.Of[corev1.ServiceAccount, corev1.ServiceAccountList](kind.Description[*corev1.ServiceAccount]{
		GroupVersion: corev1.SchemeGroupVersion,
		Name:         "ServiceAccount",
		ShortNames:   []string{"sa"},
		Namespaced:   true,
		Table: kind.Columns[*corev1.ServiceAccount]{
			kind.NameColumn[*corev1.ServiceAccount](),
			{Name: "Secrets", Description: corev1.ServiceAccount{}.SwaggerDoc()["secrets"],
				Cell: func(sa *corev1.ServiceAccount, _ time.Time) any { return int64(len(sa.Secrets)) }},
			kind.AgeColumn[*corev1.ServiceAccount](),
		},
		Rules: kind.Rules[*corev1.ServiceAccount]{
			Create:      prepareServiceAccount,
			Update:      func(sa, _ *corev1.ServiceAccount) { prepareServiceAccount(sa) },
			Check:       validateServiceAccount,
			CheckUpdate: validateServiceAccountUpdate,
		},
	})
}
