package admit

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/request"
	apistorage "k8s.io/apiserver/pkg/storage"

	"github.com/jobd/jobd/api/creation"
	"github.com/jobd/jobd/api/kind"
	"github.com/jobd/jobd/api/quota"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/store"
)

// ResourceQuotas refuses changes by which an object would use more than the ResourceQuotas of its namespace allow; for new
// objects it is a rule of package creation. What is refused here is refused early, and for a dry run too; QuotaInTransaction
// decides once more in the transaction, so that two requests never share what is left for one.
type ResourceQuotas struct{ Store *store.Store }

var _ admission.ValidationInterface = ResourceQuotas{}

// Handles implements admission.Interface.
func (ResourceQuotas) Handles(op admission.Operation) bool { return op == admission.Update }

// Validate implements admission.ValidationInterface.
func (r ResourceQuotas) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return answer(creation.CheckQuotas(ctx, requestOf(r.Store, a)))
}

// QuotaInTransaction returns what refuses an object of a kind in the transaction that writes it (storage.Storage.Admit).
func QuotaInTransaction(k *kind.Kind) func(ctx context.Context, tx *store.Tx, key string, obj runtime.Object) error {
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
