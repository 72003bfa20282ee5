package admit

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"github.com/jobd/jobd/api/conns"
	"github.com/jobd/jobd/api/creation"
	"github.com/jobd/jobd/api/hostimage"
	"github.com/jobd/jobd/api/people"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/roles"
	"github.com/jobd/jobd/api/runas"
	"github.com/jobd/jobd/store"
)

// HostImage decides who may have commands of this machine run: a user of it, by the socket that is open to all, in the namespace that is
// theirs. The kernel says who that is. Whoever else has rights in that namespace, such as a pod with a token, would become its user.
// What pods of the reserved image may ask for is a rule of package creation, which this asks about changed objects.
type HostImage struct {
	Store *store.Store
	// Root says that root may, in namespaces that are nobody's too.
	Root bool
}

var _ admission.ValidationInterface = HostImage{}

// Handles implements admission.Interface.
func (HostImage) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Validate implements admission.ValidationInterface.
func (h HostImage) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() == "status" { // written often, with the whole object
		return nil
	}
	uses := false
	for t := range podspec.Templates(a.GetObject()) {
		uses = uses || hostimage.Uses(t.Spec)
	}
	was := a.GetOldObject()
	changed := was == nil || !podspec.SameSpecs(a.GetObject(), was)
	r := requestOf(h.Store, a)
	switch {
	case changed && a.GetOperation() == admission.Update: // a new object meets that rule later
		if err := answer(creation.CheckHostImage(r, h.Root)); err != nil {
			return err
		}
	case !changed && (roles.Administers(a.GetUserInfo()) || sameMetadata(a.GetObject(), was)):
		return nil
	}
	if !uses {
		return nil
	}
	ns, _, err := r.From.Namespace(a.GetNamespace())
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if reason := mayRunHere(ctx, ns, a.GetUserInfo().GetName(), h.Root); reason != nil {
		return admission.NewForbidden(a, reason)
	}
	return nil
}

// sameMetadata reports whether the pods of two objects have the same labels and annotations, which a command may be made of: a batch
// script is an annotation, and others are variables and files by the downward API.
func sameMetadata(a, b runtime.Object) bool {
	of := func(obj runtime.Object) (all []map[string]string) {
		for t := range podspec.Templates(obj) {
			all = append(all, t.Meta.Labels, t.Meta.Annotations)
		}
		return all
	}
	return equality.Semantic.DeepEqual(of(a), of(b))
}

// mayRunHere returns why somebody may not have a command of this machine run in a namespace; nil if they may.
func mayRunHere(ctx context.Context, ns *corev1.Namespace, who string, root bool) error {
	peer, local := conns.PeerFrom(ctx)
	name, id, err := runas.UserOf(ns)
	switch {
	case err != nil:
		return err
	case local && id != nil && peer.UID == id.UID && who == people.Prefix+name:
		return nil
	case local && root && peer.UID == 0:
		return nil
	case id != nil:
		return fmt.Errorf("the image %s runs commands of this machine as its user %s, so only they may use it here, by the socket of this machine's users: "+
			"not %s", hostimage.Name, name, who)
	case local && peer.UID == 0:
		return fmt.Errorf("the image %s is not for root unless the setting host-root is on: any command would be root's", hostimage.Name)
	}
	return fmt.Errorf("the image %s is for users of this machine, in their own namespaces, by their socket (docs/team.md): not for %s in %s",
		hostimage.Name, who, ns.Name)
}
