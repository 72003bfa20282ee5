package creation

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// checkNamespace refuses new objects in namespaces that do not exist or are being deleted.
func checkNamespace(_ context.Context, r *Request) (refusal, err error) {
	if r.GetNamespace() == "" || r.GetResource().GroupResource() == corev1.Resource("namespaces") {
		return nil, nil
	}
	ns, found, err := r.From.Namespace(r.GetNamespace())
	switch {
	case err != nil:
		return nil, err
	case !found:
		return apierrors.NewNotFound(corev1.Resource("namespaces"), r.GetNamespace()), nil
	case ns.DeletionTimestamp == nil && ns.Status.Phase != corev1.NamespaceTerminating:
		return nil, nil
	}
	forbidden := apierrors.NewForbidden(r.GetResource().GroupResource(), r.GetName(),
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", ns.Name))
	forbidden.ErrStatus.Details.Causes = append(forbidden.ErrStatus.Details.Causes, metav1.StatusCause{
		Type:    corev1.NamespaceTerminatingCause,
		Message: fmt.Sprintf("namespace %s is being terminated", ns.Name),
		Field:   "metadata.namespace",
	})
	return forbidden, nil
}
