package server

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
)

// podEphemeralContainers serves .../pods/NAME/ephemeralcontainers with an error that says what to do instead.
type podEphemeralContainers struct{ subresource }

var errEphemeral = errors.New("jobd does not support this: containers cannot be added to a running pod; use exec, or a copy of the pod: debug --copy-to=NAME --share-processes=false")

func (p podEphemeralContainers) Update(ctx context.Context, name string, _ rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc, _ rest.ValidateObjectUpdateFunc, _ bool, _ *metav1.UpdateOptions) (runtime.Object, bool, error) {
	if _, err := p.Get(ctx, name, &metav1.GetOptions{}); err != nil {
		return nil, false, err
	}
	return nil, false, apierrors.NewForbidden(corev1.Resource("pods/ephemeralcontainers"), name, errEphemeral)
}
