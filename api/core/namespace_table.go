package core

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/kind"
)

// namespaceColumns returns the columns of the table that kubectl prints for namespaces.
func namespaceColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		kind.NameColumn(),
		{Name: "Status", Type: "string", Description: "The status of the namespace"},
		kind.AgeColumn(),
	}
}

// namespaceCells returns one row of that table.
func namespaceCells(ns *corev1.Namespace, now time.Time) []any {
	return []any{ns.Name, string(ns.Status.Phase), Age(ns.CreationTimestamp, now)}
}
