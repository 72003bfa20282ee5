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

// maxObjects bounds the bytes of the objects that are read for the volumes of one pod, or for the variables of one container.
// All of them are in memory at a time, and a key of each may be all that is asked for.
const maxObjects = 32 << 20

// RememberObjects returns Objects that read each object only once, and no more than maxObjects of them. It is for one
// goroutine, and for as long as outdated objects do no harm.
func RememberObjects(o Objects) Objects {
	if o == nil {
		o = NoObjects{}
	}
	return &remembered{o, map[[2]string]found[*corev1.ConfigMap]{}, map[[2]string]found[*corev1.Secret]{}, 0}
}

type remembered struct {
	objects    Objects
	configMaps map[[2]string]found[*corev1.ConfigMap]
	secrets    map[[2]string]found[*corev1.Secret]
	size       int // of all of them
}

type found[T any] struct {
	object T
	err    error
}

func (r *remembered) ConfigMap(namespace, name string) (*corev1.ConfigMap, error) {
	return once(r.configMaps, func(namespace, name string) (*corev1.ConfigMap, error) {
		c, err := r.objects.ConfigMap(namespace, name)
		if err == nil {
			err = r.add(sizeOf(c.Data) + sizeOf(c.BinaryData))
		}
		return c, err
	}, namespace, name)
}

func (r *remembered) Secret(namespace, name string) (*corev1.Secret, error) {
	return once(r.secrets, func(namespace, name string) (*corev1.Secret, error) {
		s, err := r.objects.Secret(namespace, name)
		if err == nil {
			err = r.add(SizeOfSecret(s))
		}
		return s, err
	}, namespace, name)
}

func (r *remembered) add(size int) error {
	if r.size += size; r.size > maxObjects {
		return fmt.Errorf("the ConfigMaps and Secrets that are named take more than %d bytes together: %w",
			maxObjects, errdefs.ErrResourceExhausted)
	}
	return nil
}

// SizeOfSecret returns the bytes of what a Secret contains.
func SizeOfSecret(s *corev1.Secret) int { return sizeOf(s.Data) }

func sizeOf[T string | []byte](data map[string]T) (size int) {
	for key, value := range data {
		size += len(key) + len(value)
	}
	return size
}

func once[T any](
	known map[[2]string]found[T], get func(namespace, name string) (T, error), namespace, name string,
) (T, error) {
	key := [2]string{namespace, name}
	f, ok := known[key]
	if !ok {
		if f.object, f.err = get(namespace, name); f.err != nil {
			var none T
			f.object = none
		}
		known[key] = f
	}
	return f.object, f.err
}
