package server

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	apistorage "k8s.io/apiserver/pkg/storage"
	storageerrors "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/dryrun"
)

// namespaces is the endpoint of namespaces. Deleting one marks it; it goes when it has been emptied and its
// finalizers are gone.
type namespaces struct{ *resource }

func (n *namespaces) Delete(
	ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions,
) (runtime.Object, bool, error) {
	obj, err := n.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, false, err
	}
	ns := obj.(*corev1.Namespace)
	if options == nil {
		options = metav1.NewDeleteOptions(0)
	}
	preconditions := &apistorage.Preconditions{UID: &ns.UID}
	if p := options.Preconditions; p != nil {
		preconditions.ResourceVersion = p.ResourceVersion
		if p.UID != nil {
			preconditions.UID = p.UID
		}
	}
	if len(ns.Spec.Finalizers) == 0 && len(ns.Finalizers) == 0 {
		return n.resource.Delete(ctx, name, validate, options)
	}
	key, err := n.KeyFunc(ctx, name)
	if err != nil {
		return nil, false, err
	}
	marked := &corev1.Namespace{}
	err = n.Storage.GuaranteedUpdate(ctx, key, marked, false, preconditions, apistorage.SimpleUpdate(func(current runtime.Object) (runtime.Object, error) {
		if err := validate(ctx, current); err != nil {
			return nil, err
		}
		ns := current.(*corev1.Namespace)
		if ns.DeletionTimestamp == nil {
			now := metav1.Now()
			ns.DeletionTimestamp = &now
		}
		ns.Status.Phase = corev1.NamespaceTerminating
		return ns, nil
	}), dryrun.IsDryRun(options.DryRun), nil)
	if err != nil {
		return nil, false, storageerrors.InterpretUpdateError(err, n.kind.GroupResource(), name)
	}
	return marked, false, nil
}

// DeleteCollection hides that of the registry: namespaces are deleted one by one, as in a cluster.
func (n *namespaces) DeleteCollection() {}

// namespaceIsDone reports whether a deleted namespace has no finalizers left. metadata.finalizers are checked for every
// kind; a namespace has finalizers in its spec too.
func namespaceIsDone(_ context.Context, _ string, obj, _ runtime.Object) bool {
	return len(obj.(*corev1.Namespace).Spec.Finalizers) == 0
}
