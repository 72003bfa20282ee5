package admit

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"

	"github.com/jobd/jobd/api/authorization"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/tokens"
	"github.com/jobd/jobd/store"
)

// AccountRole warns clients that create pods which are going to use the API, with a ServiceAccount that has no rights: its
// token allows nothing until a binding names it. That a token is mounted says nothing of that: it is in nearly every pod of
// a cluster, and charts and tools make an account for each program. Whoever mounts a token for the API by a volume of its own
// wants to use it. All others learn it from the answer that the pod gets.
type AccountRole struct {
	Store  *store.Store
	Access *authorization.Authorizer
}

var _ admission.ValidationInterface = AccountRole{}

func (AccountRole) Handles(op admission.Operation) bool { return op == admission.Create }

func (r AccountRole) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() != "" {
		return nil
	}
	spec, path := podspec.Of(a.GetObject())
	if spec == nil || !projectsAPIToken(spec) {
		return nil
	}
	name := cmp.Or(spec.ServiceAccountName, core.DefaultServiceAccount)
	account, err := authorization.StoredAccount(r.Store, a.GetNamespace(), name)
	if err != nil || account == nil && name != core.DefaultServiceAccount {
		return err // of an account that does not exist another message tells
	}
	lacks, err := r.Access.LacksRights(&user.DefaultInfo{Name: serviceaccount.MakeUsername(a.GetNamespace(), name)})
	if err != nil {
		return err
	}
	if lacks != "" {
		warning.AddWarning(ctx, "", fmt.Sprintf("%s: %s", path.Child("serviceAccountName"), lacks))
	}
	return nil
}

// projectsAPIToken reports whether a volume of the manifest has a token for the API: one for no other audience. The volume
// that is added to pods is told by its name.
func projectsAPIToken(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool {
		if v.Projected == nil || core.IsAccountVolume(v) {
			return false
		}
		return slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
			return s.ServiceAccountToken != nil && slices.Contains([]string{"", tokens.Audience}, s.ServiceAccountToken.Audience)
		})
	})
}
