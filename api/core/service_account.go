package core

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		Columns: []metav1.TableColumnDefinition{
			kind.NameColumn(),
			{Name: "Secrets", Type: "string", Description: corev1.ServiceAccount{}.SwaggerDoc()["secrets"]},
			kind.AgeColumn(),
		},
		Cells: func(sa *corev1.ServiceAccount, now time.Time) []any {
			return []any{sa.Name, int64(len(sa.Secrets)), Age(sa.CreationTimestamp, now)}
		},
		Rules: kind.Rules[*corev1.ServiceAccount]{
			Create:      prepareServiceAccount,
			Update:      func(sa, _ *corev1.ServiceAccount) { prepareServiceAccount(sa) },
			Check:       validateServiceAccount,
			CheckUpdate: validateServiceAccountUpdate,
		},
	})
}
