package admit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/store"
)

// Controllers refuses objects that name as their controller a Job, CronJob or JobSet that does not exist: there is none of that
// name in their namespace, or it has another UID. A cluster accepts such objects and collects them later. Here, what a
// controller owns is counted by its UID, so whoever has read the UID of a Job in another namespace could make it count pods
// that it never made.
type Controllers struct{ Store *store.Store }

var _ admission.ValidationInterface = Controllers{}

// Handles implements admission.Interface.
func (Controllers) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// controllers are the kinds by whose UIDs others are counted.
var controllers = map[string]schema.GroupResource{
	"Job": batchv1.Resource("jobs"), "CronJob": batchv1.Resource("cronjobs"), "JobSet": jobsetv1.Resource("jobsets"),
}

// Validate implements admission.ValidationInterface.
func (c Controllers) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	m, err := meta.Accessor(a.GetObject())
	if err != nil {
		return nil
	}
	var before []metav1.OwnerReference
	if old, err := meta.Accessor(a.GetOldObject()); err == nil {
		before = old.GetOwnerReferences()
	}
	for i, owner := range m.GetOwnerReferences() {
		resource := controllers[owner.Kind]
		if resource.Empty() || !ptr.Deref(owner.Controller, false) || !strings.HasPrefix(owner.APIVersion, resource.Group+"/") ||
			slices.ContainsFunc(before, func(b metav1.OwnerReference) bool {
				return b.UID == owner.UID && b.Name == owner.Name && b.Kind == owner.Kind && ptr.Deref(b.Controller, false)
			}) {
			continue
		}
		there := false
		if err := c.Store.View(func(s *store.Snapshot) error {
			o, ok := s.Get(store.Key(resource.String(), a.GetNamespace(), owner.Name))
			there = ok && o.UID == string(owner.UID)
			return nil
		}); err != nil {
			return apierrors.NewInternalError(err)
		}
		if !there {
			return apierrors.NewInvalid(a.GetKind().GroupKind(), a.GetName(), field.ErrorList{field.Invalid(
				field.NewPath("metadata", "ownerReferences").Index(i), owner.Name,
				fmt.Sprintf("there is no %s of this name with the UID %q in this namespace, so it does not control this object", owner.Kind, owner.UID),
			)})
		}
	}
	return nil
}
