package server

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/warning"

	"github.com/jobd/jobd/api/networking"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// boundPolicies refuses a NetworkPolicy for which its namespace has no room, and warns whoever writes one that it has no effect,
// where that is so.
func (s *Server) boundPolicies(policies *registry.Store) {
	room := &namespaceRoom{
		most: networking.MostNamespaceSize, taken: s.policiesOf,
		says: "the NetworkPolicies of a namespace may not come to more than %d together: the policies, their peers, counted once for " +
			"each port of their rules, and exceptions; and would come to %d",
	}
	begin := func(ctx context.Context, obj runtime.Object, had int) (registry.FinishFunc, error) {
		p := obj.(*networkingv1.NetworkPolicy)
		settle, full := room.take(p.Namespace, networking.Size(&p.Spec)-had, field.NewPath("spec"))
		if full != nil {
			return nil, apierrors.NewInvalid(networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy").GroupKind(), p.Name,
				field.ErrorList{full})
		}
		if s.config.PoliciesWithoutEffect {
			warning.AddWarning(ctx, "", "pods have no bridge here, so NetworkPolicies have no effect")
		}
		return func(context.Context, bool) { settle() }, nil
	}
	noted := policies.BeginCreate
	policies.BeginCreate = func(ctx context.Context, obj runtime.Object, options *metav1.CreateOptions) (registry.FinishFunc, error) {
		if _, err := noted(ctx, obj, options); err != nil {
			return nil, err
		}
		return begin(ctx, obj, 0)
	}
	policies.BeginUpdate = func(ctx context.Context, obj, old runtime.Object, _ *metav1.UpdateOptions) (registry.FinishFunc, error) {
		return begin(ctx, obj, networking.Size(&old.(*networkingv1.NetworkPolicy).Spec))
	}
}

// policiesOf returns the size of all NetworkPolicies of a namespace.
func (s *Server) policiesOf(namespace string) (size int, err error) {
	viewed := s.config.Store.View(func(snapshot *store.Snapshot) error {
		snapshot.Range(store.Key("networkpolicies."+networkingv1.GroupName, namespace, ""), "", func(o store.Object) bool {
			p := &networkingv1.NetworkPolicy{}
			if err = scheme.Decode(o.Value, p); err != nil {
				return false
			}
			size += networking.Size(&p.Spec)
			return true
		})
		return err
	})
	return size, viewed
}
