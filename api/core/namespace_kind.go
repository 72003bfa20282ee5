package core

// The description of the kind for the server. The rules are in namespace.go.

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
		Default:      setNamespaceDefaults,
		Fields:       namespaceFields(),
		Table:        namespaceTable(),
		Rules: kind.Rules[*corev1.Namespace]{
			Create:      PrepareNamespace,
			Update:      prepareNamespaceUpdate,
			Check:       validateNamespace,
			CheckUpdate: validateNamespaceUpdate,
			Reset:       kind.Path("status"),
		},
		Subresources: map[string]kind.Rules[*corev1.Namespace]{
			"status": {
				Update:      prepareNamespaceStatusUpdate,
				CheckUpdate: validateNamespaceStatusUpdate,
				Reset:       kind.Path("spec"),
			},
			"finalize": {
				Update:      prepareNamespaceFinalize,
				CheckUpdate: validateNamespaceFinalize,
				Reset:       kind.Path("status"),
			},
		},
	})
}
