package server

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// accountRole warns clients that create pods with a ServiceAccount of their own that has no role: in a cluster RBAC
// would grant it one, but RBAC is not served here, and so its token allows nothing. It does not warn about the default
// account unless its token is requested, since all ordinary pods have it.
type accountRole struct{ store *store.Store }

var _ admission.ValidationInterface = accountRole{}

func (accountRole) Handles(op admission.Operation) bool { return op == admission.Create }

func (r accountRole) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() != "" {
		return nil
	}
	spec, path := podspec.Of(a.GetObject())
	if spec == nil {
		return nil
	}
	name := cmp.Or(spec.ServiceAccountName, core.DefaultServiceAccount)
	account, err := storedAccount(r.store, a.GetNamespace(), name)
	if err != nil || account == nil && name != core.DefaultServiceAccount {
		return err // pods of an account that does not exist are refused elsewhere, with another message
	}
	wanted := name != core.DefaultServiceAccount
	granted := ""
	if account != nil {
		wanted = ptr.Deref(account.AutomountServiceAccountToken, wanted)
		granted = account.Annotations[core.RoleAnnotation]
	}
	if ptr.Deref(spec.AutomountServiceAccountToken, wanted) && granted == "" {
		warning.AddWarning(ctx, "",
			fmt.Sprintf("%s: %s", path.Child("serviceAccountName"), withoutRole(a.GetNamespace(), name)))
	}
	return nil
}

// withoutRole returns a message that a ServiceAccount has no role, and how to grant one.
func withoutRole(namespace, name string) string {
	return fmt.Sprintf("the ServiceAccount %q has no role in jobd, which serves no RBAC, so its token may do nothing: "+
		"kubectl annotate serviceaccount %s --namespace %s %s=%s|%s|%s",
		name, name, namespace, core.RoleAnnotation, core.RoleRead, core.RoleSubmit, core.RoleAdmin)
}

// storedAccount returns a ServiceAccount, nil if there is none.
func storedAccount(s *store.Store, namespace, name string) (account *corev1.ServiceAccount, err error) {
	err = s.View(func(snapshot *store.Snapshot) error {
		o, ok := snapshot.Get(store.Key("serviceaccounts", namespace, name))
		if !ok {
			return nil
		}
		account = &corev1.ServiceAccount{}
		return scheme.Decode(o.Value, account)
	})
	if err != nil {
		return nil, fmt.Errorf("serviceaccounts/%s/%s: %w", namespace, name, err)
	}
	return account, nil
}
