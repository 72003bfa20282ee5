package oci

import (
	"fmt"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"
)

// Objects returns the objects from which variables and volumes are made, or NotFound for one that does not exist.
type Objects interface {
	ConfigMap(namespace, name string) (*corev1.ConfigMap, error)
	Secret(namespace, name string) (*corev1.Secret, error)
}

// NotFound returns the error for an object that does not exist, as the API words it.
func NotFound(kind, name string) error {
	return fmt.Errorf("%s %q %w", kind, name, errdefs.ErrNotFound)
}

// NoObjects has no objects.
type NoObjects struct{}

// ConfigMap always returns NotFound.
func (NoObjects) ConfigMap(_, name string) (*corev1.ConfigMap, error) {
	return nil, NotFound("configmap", name)
}

// Secret always returns NotFound.
func (NoObjects) Secret(_, name string) (*corev1.Secret, error) {
	return nil, NotFound("secret", name)
}

func objects(in Input) Objects {
	if in.Objects == nil {
		return NoObjects{}
	}
	return in.Objects
}

// RememberObjects returns Objects that read each object only once. It is for one goroutine, and for as long as outdated
// objects do no harm.
func RememberObjects(o Objects) Objects {
	if o == nil {
		o = NoObjects{}
	}
	return &remembered{o, map[[2]string]found[*corev1.ConfigMap]{}, map[[2]string]found[*corev1.Secret]{}}
}

type remembered struct {
	objects    Objects
	configMaps map[[2]string]found[*corev1.ConfigMap]
	secrets    map[[2]string]found[*corev1.Secret]
}

type found[T any] struct {
	object T
	err    error
}

func (r *remembered) ConfigMap(namespace, name string) (*corev1.ConfigMap, error) {
	return once(r.configMaps, r.objects.ConfigMap, namespace, name)
}

func (r *remembered) Secret(namespace, name string) (*corev1.Secret, error) {
	return once(r.secrets, r.objects.Secret, namespace, name)
}

func once[T any](
	known map[[2]string]found[T], get func(namespace, name string) (T, error), namespace, name string,
) (T, error) {
	key := [2]string{namespace, name}
	f, ok := known[key]
	if !ok {
		f.object, f.err = get(namespace, name)
		known[key] = f
	}
	return f.object, f.err
}
