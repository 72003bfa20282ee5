package core

// The description of the kind for the server. The rules are in node.go.

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/kind"
)

// NodeKind describes v1 Nodes.
func NodeKind() *kind.Kind {
	return kind.Of[corev1.Node, corev1.NodeList](kind.Description[*corev1.Node]{
		GroupVersion: corev1.SchemeGroupVersion,
		Name:         "Node",
		ShortNames:   []string{"no"},
		Fields:       nodeFields(),
		Table:        nodeTable(),
		Rules: kind.Rules[*corev1.Node]{
			Update:      prepareNodeUpdate,
			Check:       validateNode,
			CheckUpdate: validateNodeUpdate,
			Reset:       kind.Path("status"),
		},
		Subresources: map[string]kind.Rules[*corev1.Node]{
			"status": {
				Update:      prepareNodeStatusUpdate,
				CheckUpdate: validateNodeUpdate,
				Reset:       kind.Path("spec"),
			},
		},
	})
}
