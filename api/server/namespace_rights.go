package server

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic/registry"

	"github.com/jobd/jobd/api/kind"
	"github.com/jobd/jobd/api/rbac"
)

// newRightsRoom returns the room that a namespace has for its Roles and RoleBindings.
func (s *Server) newRightsRoom() *namespaceRoom {
	return &namespaceRoom{
		most: rbac.MostNamespaceSize,
		says: "the Roles and RoleBindings of a namespace may not come to more than %d together: the rules, what is in their lists, the bindings " +
			"and their subjects; and would come to %d",
		taken: func(namespace string) (size int, err error) {
			err = s.access.Policy(func(p *rbac.Policy) { size = p.Size(namespace) })
			return size, err
		},
	}
}

// boundRights refuses a Role or a RoleBinding for which its namespace has no room.
func (s *Server) boundRights(objects *registry.Store, k *kind.Kind) {
	begin := func(obj runtime.Object, had int) (registry.FinishFunc, error) {
		o, path := obj.(metav1.Object), field.NewPath("rules")
		if k.Name == "RoleBinding" {
			path = field.NewPath("subjects")
		}
		settle, full := s.rights.take(o.GetNamespace(), rbac.Size(o)-had, path)
		if full != nil {
			return nil, apierrors.NewInvalid(k.GroupVersion.WithKind(k.Name).GroupKind(), o.GetName(), field.ErrorList{full})
		}
		return func(context.Context, bool) { settle() }, nil
	}
	noted := objects.BeginCreate
	objects.BeginCreate = func(ctx context.Context, obj runtime.Object, options *metav1.CreateOptions) (registry.FinishFunc, error) {
		if _, err := noted(ctx, obj, options); err != nil {
			return nil, err
		}
		return begin(obj, 0)
	}
	objects.BeginUpdate = func(_ context.Context, obj, old runtime.Object, _ *metav1.UpdateOptions) (registry.FinishFunc, error) {
		return begin(obj, rbac.Size(old.(metav1.Object)))
	}
}
