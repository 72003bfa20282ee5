package core

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/kind"
)

// namespaceTable is what kubectl prints of namespaces.
func namespaceTable() kind.Columns[*corev1.Namespace] {
	return kind.Columns[*corev1.Namespace]{
		kind.NameColumn[*corev1.Namespace](),
		{Name: "Status", Description: "The status of the namespace",
			Cell: func(ns *corev1.Namespace, _ time.Time) any { return string(ns.Status.Phase) }},
		kind.AgeColumn[*corev1.Namespace](),
	}
}
