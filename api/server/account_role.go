package server

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// accountRole warns clients that create pods with a ServiceAccount of their own that has no rights: its token allows
// nothing until a binding names it. It does not warn about the default account unless its token is requested, since all
// ordinary pods have it.
type accountRole struct{ server *Server }

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
	account, err := storedAccount(r.server.config.Store, a.GetNamespace(), name)
	if err != nil || account == nil && name != core.DefaultServiceAccount {
		return err // pods of an account that does not exist are refused elsewhere, with another message
	}
	wanted := name != core.DefaultServiceAccount
	if account != nil {
		wanted = ptr.Deref(account.AutomountServiceAccountToken, wanted)
	}
	if !ptr.Deref(spec.AutomountServiceAccountToken, wanted) {
		return nil
	}
	lacks, err := r.server.lacksRights(&user.DefaultInfo{Name: serviceaccount.MakeUsername(a.GetNamespace(), name)})
	if err != nil {
		return err
	}
	if lacks != "" {
		warning.AddWarning(ctx, "", fmt.Sprintf("%s: %s", path.Child("serviceAccountName"), lacks))
	}
	return nil
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
