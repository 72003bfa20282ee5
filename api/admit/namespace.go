// Package admit decides about what clients write, as the admission plugins of a cluster do: each file is one of them, which
// refuses an object, fills it in or warns about it. They read the store and write nothing; api/server says in what order they are asked.
package admit

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
)

// PermanentNamespaces lists the namespaces that cannot be deleted.
var PermanentNamespaces = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}

// NamespaceLifecycle refuses the deletion of the permanent namespaces.
type NamespaceLifecycle struct{}

var _ admission.ValidationInterface = NamespaceLifecycle{}

// Handles implements admission.Interface.
func (NamespaceLifecycle) Handles(op admission.Operation) bool { return op == admission.Delete }

// Validate implements admission.ValidationInterface.
func (NamespaceLifecycle) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	of := a.GetResource().GroupResource()
	if of != corev1.Resource("namespaces") || !slices.Contains(PermanentNamespaces, a.GetName()) {
		return nil
	}
	return apierrors.NewForbidden(of, a.GetName(), errors.New("this namespace may not be deleted"))
}
