package forward

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// The kinds of which copies go with a Job.
const (
	configMap = "ConfigMap"
	secret    = "Secret"
)

// copies are the objects of one of those kinds in a namespace there.
type copies interface {
	remover
	create(ctx context.Context, o metav1.Object) error
	get(ctx context.Context, name string) (metav1.Object, error)
	list(ctx context.Context, labels string) ([]metav1.Object, error)
	patch(ctx context.Context, name string, patch []byte) error
}

func (f *Forwarder) copiesOf(kind, namespace string) copies {
	if kind == configMap {
		return copiesBy[*corev1.ConfigMap, *corev1.ConfigMapList]{f.remote.CoreV1().ConfigMaps(namespace)}
	}
	return copiesBy[*corev1.Secret, *corev1.SecretList]{f.remote.CoreV1().Secrets(namespace)}
}

// contents are what is in a copy, and in what it is one of.
func contents(o metav1.Object) []any {
	switch o := o.(type) {
	case *corev1.ConfigMap:
		return []any{o.Data, o.BinaryData}
	case *corev1.Secret:
		return []any{o.Type, o.Data}
	}
	return nil
}

// copiesBy are copies by the client of their kind.
type copiesBy[T metav1.Object, L runtime.Object] struct{ clientOf[T, L] }

// clientOf is what is used of a client.
type clientOf[T metav1.Object, L runtime.Object] interface {
	remover
	Create(ctx context.Context, o T, options metav1.CreateOptions) (T, error)
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Patch(ctx context.Context, name string, kind types.PatchType, patch []byte, options metav1.PatchOptions, subresources ...string) (T, error)
}

func (c copiesBy[T, L]) create(ctx context.Context, o metav1.Object) error {
	_, err := c.Create(ctx, o.(T), metav1.CreateOptions{FieldManager: fieldManager})
	return err
}

func (c copiesBy[T, L]) get(ctx context.Context, name string) (metav1.Object, error) {
	return c.Get(ctx, name, metav1.GetOptions{})
}

func (c copiesBy[T, L]) list(ctx context.Context, labels string) (all []metav1.Object, err error) {
	list, err := c.List(ctx, metav1.ListOptions{LabelSelector: labels})
	if err != nil {
		return nil, err
	}
	err = meta.EachListItem(list, func(o runtime.Object) error {
		all = append(all, o.(metav1.Object))
		return nil
	})
	return all, err
}

func (c copiesBy[T, L]) patch(ctx context.Context, name string, patch []byte) error {
	_, err := c.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	return err
}
