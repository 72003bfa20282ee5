package server

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/registry/rest"
	apistorage "k8s.io/apiserver/pkg/storage"
	storageerrors "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/dryrun"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

var (
	// permanent lists the namespaces that cannot be deleted.
	permanent = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}
	// system lists the namespaces that every start creates if they are missing.
	system = append([]string{corev1.NamespaceNodeLease}, permanent...)
)

// createNamespaces makes the system namespaces that are missing.
func (s *Server) createNamespaces() error {
	var missing []string
	for _, name := range system {
		if _, found, err := s.namespace(name); err != nil {
			return err
		} else if !found {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	err := s.config.Store.Update(context.Background(), func(tx *store.Tx) error {
		for _, name := range missing {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: name, UID: uuid.NewUUID(), CreationTimestamp: metav1.NewTime(time.Now().Truncate(time.Second)),
			}}
			core.PrepareNamespace(ns)
			value, err := scheme.Encode(ns)
			if err != nil {
				return err
			}
			tx.Put(store.Object{Key: store.Key("namespaces", "", name), UID: string(ns.UID), Value: value})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("create the namespaces %v: %w", missing, err)
	}
	return nil
}

func (s *Server) namespace(name string) (ns *corev1.Namespace, found bool, err error) {
	ns = &corev1.Namespace{}
	err = s.config.Store.View(func(snapshot *store.Snapshot) error {
		object, ok := snapshot.Get(store.Key("namespaces", "", name))
		if found = ok; !ok {
			return nil
		}
		return scheme.Decode(object.Value, ns)
	})
	if err != nil {
		return nil, false, fmt.Errorf("read the namespace %s: %w", name, err)
	}
	return ns, found, nil
}

// namespaceLifecycle refuses new objects in namespaces that do not exist or are being deleted, and the deletion of the
// permanent ones.
type namespaceLifecycle struct{ server *Server }

var _ admission.ValidationInterface = namespaceLifecycle{}

func (namespaceLifecycle) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Delete
}

func (l namespaceLifecycle) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	isNamespace := a.GetResource().GroupResource() == schema.GroupResource{Resource: "namespaces"}
	if a.GetOperation() == admission.Delete {
		if isNamespace {
			for _, name := range permanent {
				if a.GetName() == name {
					return apierrors.NewForbidden(a.GetResource().GroupResource(), name,
						fmt.Errorf("this namespace may not be deleted"))
				}
			}
		}
		return nil
	}
	if isNamespace || a.GetNamespace() == "" {
		return nil
	}
	ns, found, err := l.server.namespace(a.GetNamespace())
	switch {
	case err != nil:
		return apierrors.NewInternalError(err)
	case !found:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, a.GetNamespace())
	case ns.DeletionTimestamp == nil && ns.Status.Phase != corev1.NamespaceTerminating:
		return nil
	}
	refusal := apierrors.NewForbidden(a.GetResource().GroupResource(), a.GetName(),
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", ns.Name))
	refusal.ErrStatus.Details.Causes = append(refusal.ErrStatus.Details.Causes, metav1.StatusCause{
		Type:    corev1.NamespaceTerminatingCause,
		Message: fmt.Sprintf("namespace %s is being terminated", ns.Name),
		Field:   "metadata.namespace",
	})
	return refusal
}

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
		return n.Store.Delete(ctx, name, validate, options)
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
