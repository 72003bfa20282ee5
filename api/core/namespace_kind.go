package core

// The description of the kind for the server. What the rules are is said in namespace.go.

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/kind"
)

// NamespaceKind describes v1 Namespaces.
func NamespaceKind() *kind.Kind {
	return kind.Of[corev1.Namespace, corev1.NamespaceList](kind.Description[*corev1.Namespace]{
		GroupVersion: corev1.SchemeGroupVersion,
		Name:         "Namespace",
		ShortNames:   []string{"ns"},
		Default:      SetNamespaceDefaults,
		Fields:       NamespaceFields(),
		Columns:      NamespaceColumns(),
		Cells:        NamespaceCells,
		Rules: kind.Rules[*corev1.Namespace]{
			Create:      PrepareNamespace,
			Update:      PrepareNamespaceUpdate,
			Check:       ValidateNamespace,
			CheckUpdate: ValidateNamespaceUpdate,
			Reset:       kind.Path("status"),
		},
		Subresources: map[string]kind.Rules[*corev1.Namespace]{
			"status": {
				Update:      PrepareNamespaceStatusUpdate,
				CheckUpdate: ValidateNamespaceStatusUpdate,
				Reset:       kind.Path("spec"),
			},
			"finalize": {
				Update:      PrepareNamespaceFinalize,
				CheckUpdate: ValidateNamespaceFinalize,
				Reset:       kind.Path("status"),
			},
		},
	})
}
