package creation

import (
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/jobd/jobd/api/storage"
)

// resolveReferences resolves what a pod or a group of pods names, its priority class, its service account and its runtime
// class, and refuses it if that is not there.
func resolveReferences(r *Request) (refusal, err error) {
	var resolve func(*storage.PodReferences) error
	switch obj := r.GetObject().(type) {
	case *corev1.Pod:
		resolve = func(all *storage.PodReferences) error { return all.Resolve(r.GetNamespace(), &obj.Spec) }
	case *schedulingv1beta1.PodGroup:
		resolve = func(all *storage.PodReferences) error { return all.ResolveGroup(obj) }
	default:
		return nil, nil
	}
	var reason error
	if err := r.From.References(func(all *storage.PodReferences) { reason = resolve(all) }); err != nil || reason == nil {
		return nil, err
	}
	return r.forbidden(reason), nil
}
