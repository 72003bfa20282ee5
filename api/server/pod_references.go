package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/admission"

	"github.com/jobd/jobd/api/scheduling"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/store"
)

// podReferences resolves what a new pod or group of pods names, its priority class, its service account and its runtime
// class, and refuses
// what is not there. It keeps the built-in classes, and one default class.
type podReferences struct{ store *store.Store }

var (
	_ admission.MutationInterface   = podReferences{}
	_ admission.ValidationInterface = podReferences{}

	classResource = schema.GroupResource{Group: schedulingv1.GroupName, Resource: "priorityclasses"}
)

func (podReferences) Handles(op admission.Operation) bool { return op != admission.Connect }

func (r podReferences) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetOperation() != admission.Create || a.GetSubresource() != "" {
		return nil
	}
	var resolve func(*storage.PodReferences) error
	switch obj := a.GetObject().(type) {
	case *corev1.Pod:
		resolve = func(r *storage.PodReferences) error { return r.Resolve(a.GetNamespace(), &obj.Spec) }
	case *schedulingv1beta1.PodGroup:
		resolve = func(r *storage.PodReferences) error { return r.ResolveGroup(obj) }
	default:
		return nil
	}
	var refusal error
	err := r.store.View(func(s *store.Snapshot) error {
		references, err := storage.NewPodReferences(s)
		if err != nil {
			return err
		}
		refusal = resolve(references)
		return nil
	})
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if refusal != nil {
		return admission.NewForbidden(a, refusal)
	}
	return nil
}

func (r podReferences) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != classResource {
		return nil
	}
	if a.GetOperation() == admission.Delete {
		if scheduling.IsBuiltin(a.GetName()) {
			return apierrors.NewForbidden(classResource, a.GetName(),
				errors.New("this is a system priority class and cannot be deleted"))
		}
		return nil
	}
	class, ok := a.GetObject().(*schedulingv1.PriorityClass)
	if !ok || !class.GlobalDefault {
		return nil
	}
	var classes []*schedulingv1.PriorityClass
	if err := r.store.View(func(s *store.Snapshot) (err error) {
		classes, err = storage.PriorityClasses(s)
		return err
	}); err != nil {
		return apierrors.NewInternalError(err)
	}
	for _, c := range classes {
		if c.GlobalDefault && c.Name != class.Name {
			return admission.NewForbidden(a,
				fmt.Errorf("PriorityClass %s is already marked as default. Only one default can exist", c.Name))
		}
	}
	return nil
}

// createPriorityClasses creates the built-in ones that are missing.
func (s *Server) createPriorityClasses() error {
	err := s.config.Store.Update(context.Background(), func(tx *store.Tx) error {
		for _, class := range scheduling.Builtin() {
			key := store.Key(classResource.String(), "", class.Name)
			if _, ok := tx.Get(key); ok {
				continue
			}
			class.UID, class.CreationTimestamp = uuid.NewUUID(), metav1.NewTime(time.Now().Truncate(time.Second))
			value, err := scheme.Encode(class)
			if err != nil {
				return err
			}
			tx.Put(store.Object{Key: key, UID: string(class.UID), Value: value})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("create the built-in priority classes: %w", err)
	}
	return nil
}
