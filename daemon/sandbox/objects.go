package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/hostpath"
	"github.com/jobd/jobd/api/podsecurity"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/runas"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/internal/nss"
	"github.com/jobd/jobd/runtime/oci"
	"github.com/jobd/jobd/store"
)

// Objects reads the objects from which volumes, variables and pull secrets of pods are made. It may be used from any
// goroutine.
type Objects struct {
	Store *store.Store
	// Security says which pods namespaces take. Nil: any.
	Security *podsecurity.Policy
	// Lookup finds a user of the host, as the host has it now. Nil: the annotations of namespaces are believed.
	Lookup func(ctx context.Context, uid uint32) (nss.User, error)
}

// ConfigMap returns a ConfigMap, or an error if there is none.
func (o Objects) ConfigMap(namespace, name string) (*corev1.ConfigMap, error) {
	object := &corev1.ConfigMap{}
	if ok, err := o.get(store.Key(objects.ConfigMaps, namespace, name), object); err != nil {
		return nil, err
	} else if !ok {
		return nil, oci.NotFound("configmap", name)
	}
	return object, nil
}

// Secret returns a Secret, or an error if there is none.
func (o Objects) Secret(namespace, name string) (*corev1.Secret, error) {
	object := &corev1.Secret{}
	if ok, err := o.get(store.Key(objects.Secrets, namespace, name), object); err != nil {
		return nil, err
	} else if !ok {
		return nil, oci.NotFound("secret", name)
	}
	return object, nil
}

// Services returns the Services to which a pod has links (PodSpec.EnableServiceLinks): those of its namespace.
func (o Objects) Services(p *corev1.Pod) ([]*corev1.Service, error) {
	if !ptr.Deref(p.Spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks) {
		return nil, nil
	}
	return storage.Services(o.Store, p.Namespace)
}

// HostPaths implements volume.HostPaths. A list that makes no sense allows nothing.
func (o Objects) HostPaths(namespace string) (list *hostpath.List, plain bool, err error) {
	ns, err := o.namespace(namespace)
	if err != nil {
		return nil, false, err
	}
	list, _ = hostpath.Of(ns)
	return list, o.limits(ns), nil
}

// Limited reports whether a namespace takes only pods that cannot take over the host.
func (o Objects) Limited(namespace string) (bool, error) {
	if o.Security == nil {
		return false, nil
	}
	ns, err := o.namespace(namespace)
	return err == nil && o.limits(ns), err
}

func (o Objects) limits(ns *corev1.Namespace) bool { return o.Security != nil && o.Security.Limits(ns) }

// RunAs implements volume.HostPaths. Where the namespace belongs to a user of the host, the host says which groups that user is in: the
// annotation is only as new as the user's last request, and who has left comes with none.
func (o Objects) RunAs(namespace string) (*runas.Identity, error) {
	ns, err := o.namespace(namespace)
	if err != nil {
		return nil, err
	}
	name, user, err := runas.UserOf(ns)
	if err != nil || user == nil || o.Lookup == nil {
		id, unreadable := runas.Of(ns)
		return id, cmp.Or(err, unreadable)
	}
	u, err := userNow(context.Background(), o.Lookup, user.UID, name)
	if err != nil {
		return nil, err
	}
	id := &runas.Identity{UID: u.UID}
	for _, g := range u.Groups {
		id.Groups = append(id.Groups, g.GID)
	}
	return id, nil
}

// login returns the number of the user of the host whom the pods of a namespace are; nil if they are nobody.
func (o Objects) login(namespace string) (*uint32, error) {
	ns, err := o.namespace(namespace)
	if err != nil {
		return nil, err
	}
	id, err := runas.Of(ns)
	if err != nil || id == nil {
		return nil, err
	}
	return &id.UID, nil
}

// userNow finds a user of the host who is still called as before, if the name is not empty: another one may have the number by now.
func userNow(ctx context.Context, lookup func(context.Context, uint32) (nss.User, error), uid uint32, name string) (nss.User, error) {
	u, err := lookup(ctx, uid)
	var unknown nss.UnknownError
	switch {
	case errors.As(err, &unknown):
		return u, fmt.Errorf("%w: %w", err, errdefs.ErrNotFound)
	case err != nil:
		return u, fmt.Errorf("find user %d: %w: %w", uid, err, errdefs.ErrUnavailable)
	case name != "" && u.Name != name:
		return u, fmt.Errorf("user %d of this machine is %s now, and not %s any more: %w", uid, u.Name, name, errdefs.ErrPermissionDenied)
	case len(u.Groups) == 0:
		return u, fmt.Errorf("user %s of this machine has no group: %w", u.Name, errdefs.ErrNotFound)
	}
	return u, nil
}

// inGroups returns a pod in the groups that the user of its namespace is in now, the same one if it is. What it cannot do without, the
// group of its processes and that of its volumes, the user must still be in. Nor may it do without a group: the mode or the list of a file
// may refuse that very one, and the user cannot leave it elsewhere either.
func (o Objects) inGroups(p *corev1.Pod) (*corev1.Pod, error) {
	id, err := o.RunAs(p.Namespace)
	if err != nil || id == nil {
		return p, err
	}
	left := func(gid *int64) bool { return gid != nil && o.Lookup != nil && !id.Has(*gid) }
	gone := func(gid *int64) error {
		return fmt.Errorf("user %d of this machine is not in group %d any more: %w", id.UID, *gid, errdefs.ErrPermissionDenied)
	}
	for c := range podspec.Containers(&p.Spec) {
		if c.SecurityContext != nil && left(c.SecurityContext.RunAsGroup) {
			return nil, gone(c.SecurityContext.RunAsGroup)
		}
	}
	of := p.Spec.SecurityContext
	switch {
	case of == nil:
		return p, nil
	case left(of.RunAsGroup):
		return nil, gone(of.RunAsGroup)
	case left(of.FSGroup):
		return nil, gone(of.FSGroup)
	}
	isLeft := func(gid int64) bool { return left(&gid) }
	groups := slices.DeleteFunc(slices.Clone(of.SupplementalGroups), isLeft)
	if ptr.Deref(of.RunAsUser, -1) == int64(id.UID) { // others are older than what the namespace says
		for _, g := range id.Groups {
			if gid := int64(g); !slices.Contains(groups, gid) && gid != ptr.Deref(of.FSGroup, -1) {
				groups = append(groups, gid)
			}
		}
	}
	if !slices.Equal(groups, of.SupplementalGroups) {
		p = p.DeepCopy()
		p.Spec.SecurityContext.SupplementalGroups = groups
	}
	return p, nil
}

func (o Objects) namespace(name string) (*corev1.Namespace, error) {
	ns := &corev1.Namespace{}
	if ok, err := o.get(store.Key(objects.Namespaces, "", name), ns); err != nil {
		return nil, err
	} else if !ok {
		return nil, oci.NotFound("namespace", name)
	}
	return ns, nil
}

// maxPullSecrets bounds what the pull secrets of one pod take, in bytes: they are in memory until its images have been pulled.
// Any one Secret is within it.
const maxPullSecrets = corev1.MaxSecretSize + 64<<10

// PullSecrets returns the Secrets with which a pod's images are pulled, each once, and the names of those that do not exist.
func (o Objects) PullSecrets(p *corev1.Pod) (found []corev1.Secret, missing []string, err error) {
	known, size := sets.New[string](), 0
	for _, ref := range p.Spec.ImagePullSecrets {
		if known.Has(ref.Name) {
			continue
		}
		known.Insert(ref.Name)
		secret, err := o.Secret(p.Namespace, ref.Name)
		if err != nil {
			missing = append(missing, ref.Name)
			continue
		}
		if size += oci.SizeOfSecret(secret); size > maxPullSecrets {
			return nil, nil, fmt.Errorf("imagePullSecrets: the Secrets take more than %d bytes together: %w",
				maxPullSecrets, errdefs.ErrResourceExhausted)
		}
		found = append(found, *secret)
	}
	return found, missing, nil
}

func (o Objects) get(key string, into runtime.Object) (ok bool, err error) {
	err = o.Store.View(func(s *store.Snapshot) error {
		ok, err = objects.Read(s, key, into)
		return err
	})
	return ok, err
}
