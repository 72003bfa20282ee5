package server

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/warning"
)

// warnOfPolicies warns whoever writes a NetworkPolicy that it has no effect, where that is so.
func (s *Server) warnOfPolicies(policies *registry.Store) {
	if !s.config.PoliciesWithoutEffect {
		return
	}
	warn := func(ctx context.Context) {
		warning.AddWarning(ctx, "", "pods have no bridge here, so NetworkPolicies have no effect")
	}
	noted := policies.BeginCreate
	policies.BeginCreate = func(ctx context.Context, obj runtime.Object, options *metav1.CreateOptions) (registry.FinishFunc, error) {
		warn(ctx)
		return noted(ctx, obj, options)
	}
	policies.BeginUpdate = func(ctx context.Context, _, _ runtime.Object, _ *metav1.UpdateOptions) (registry.FinishFunc, error) {
		warn(ctx)
		return func(context.Context, bool) {}, nil
	}
}
