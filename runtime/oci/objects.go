package oci

import (
	"fmt"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"
)

// Objects gives the objects that variables and volumes are made of. One that is not there is NotFound.
type Objects interface {
	ConfigMap(namespace, name string) (*corev1.ConfigMap, error)
	Secret(namespace, name string) (*corev1.Secret, error)
}

// NotFound is the error for an object that is not there, in the API's words.
func NotFound(kind, name string) error {
	return fmt.Errorf("%s %q %w", kind, name, errdefs.ErrNotFound)
}

// NoObjects has none.
type NoObjects struct{}

// ConfigMap is always NotFound.
func (NoObjects) ConfigMap(_, name string) (*corev1.ConfigMap, error) {
	return nil, NotFound("configmap", name)
}

// Secret is always NotFound.
func (NoObjects) Secret(_, name string) (*corev1.Secret, error) {
	return nil, NotFound("secret", name)
}

func objects(in Input) Objects {
	if in.Objects == nil {
		return NoObjects{}
	}
	return in.Objects
}
