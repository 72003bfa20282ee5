package server

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/request"
	apistorage "k8s.io/apiserver/pkg/storage"

	"github.com/jobd/jobd/api/kind"
	"github.com/jobd/jobd/api/quota"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/store"
)

// resourceQuotas refuses objects that would use more than the ResourceQuotas of their namespace allow. What is refused here
// is refused early, and for a dry run too; quotaAdmission decides once more in the transaction, so that two requests never share
// what is left for one. The objects that the control loop creates it checks in the same way.
type resourceQuotas struct{ store *store.Store }

var _ admission.ValidationInterface = resourceQuotas{}

func (resourceQuotas) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

func (r resourceQuotas) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetNamespace() == "" || a.GetObject() == nil {
		return nil
	}
	var quotas []corev1.ResourceQuota
	if err := r.store.View(func(s *store.Snapshot) (err error) {
		quotas, err = storage.ResourceQuotas(s, a.GetNamespace())
		return err
	}); err != nil {
		return apierrors.NewInternalError(err)
	}
	_, err := quota.Check(quotas, a)
	return err
}

// quotaAdmission returns what refuses an object of a kind in the transaction that writes it (storage.Storage.Admit).
func quotaAdmission(k *kind.Kind) func(ctx context.Context, tx *store.Tx, key string, obj runtime.Object) error {
	of := k.GroupResource()
	return func(ctx context.Context, tx *store.Tx, key string, obj runtime.Object) error {
		namespace, _ := request.NamespaceFrom(ctx)
		if !k.Namespaced || namespace == "" {
			return nil
		}
		quotas, err := storage.ResourceQuotas(tx, namespace)
		if err != nil || len(quotas) == 0 {
			return err
		}
		operation, old := admission.Create, runtime.Object(nil)
		if o, ok := tx.Get(key); ok {
			operation, old = admission.Update, k.New()
			if err := scheme.Decode(o.Value, old); err != nil {
				return err
			}
			if err := (apistorage.APIObjectVersioner{}).UpdateObject(old, o.Version); err != nil {
				return err
			}
		}
		m, err := meta.Accessor(obj)
		if err != nil {
			return err
		}
		// Other requests may write objects of this kind too: an eviction does.
		subresource := ""
		if info, ok := request.RequestInfoFrom(ctx); ok && info.Resource == of.Resource {
			subresource = info.Subresource
		}
		_, err = quota.Check(quotas, admission.NewAttributesRecord(obj, old, k.GroupVersion.WithKind(k.Name), namespace, m.GetName(),
			of.WithVersion(k.GroupVersion.Version), subresource, operation, nil, false, nil))
		return err
	}
}
