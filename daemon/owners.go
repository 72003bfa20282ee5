package daemon

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/kind"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/store"
)

const garbageCollector = "garbage-collector-controller"

// owners is what has become of the owners of an object (ObjectMeta.OwnerReferences).
type owners struct {
	there int
	gone  []metav1.OwnerReference
	// leaving are those that wait for their dependents to go first.
	leaving []types.UID
	// unknown says that there is an owner of a kind that jobd does not know, or that nothing can be said of: such an
	// object is left alone.
	unknown bool
}

func (p *pass) ownersOf(obj metav1.Object) (o owners, err error) {
	for _, ref := range obj.GetOwnerReferences() {
		k := kindOf(ref)
		if k == nil || k.Namespaced && obj.GetNamespace() == "" {
			return owners{unknown: true}, nil
		}
		owner, there, err := p.any(ownerKey(k, ref, obj.GetNamespace()))
		switch {
		case err != nil:
			return o, err
		case !there || owner.GetUID() != ref.UID:
			o.gone = append(o.gone, ref)
		case isLeaving(owner):
			o.leaving = append(o.leaving, ref.UID)
		default:
			o.there++
		}
	}
	return o, nil
}

func isLeaving(obj metav1.Object) bool {
	return obj.GetDeletionTimestamp() != nil && storage.Propagation(obj) == metav1.DeletePropagationForeground
}

func kindOf(ref metav1.OwnerReference) *kind.Kind {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil
	}
	for _, k := range served() {
		if k.Name == ref.Kind && k.GroupVersion == gv {
			return k
		}
	}
	return nil
}

// ownerKey is where an owner is: in the namespace of what it owns.
func ownerKey(k *kind.Kind, ref metav1.OwnerReference, namespace string) string {
	if !k.Namespaced {
		namespace = ""
	}
	return store.Key(k.GroupResource().String(), namespace, ref.Name)
}

// checkOwners looks at an object that somebody has given owners: it goes if none of them is there, and is told if one is
// in another namespace.
func (p *pass) checkOwners(key string) error {
	obj, ok, err := p.any(key)
	if err != nil || !ok {
		return err
	}
	if pod, ok := obj.(*corev1.Pod); ok && metav1.GetControllerOfNoCopy(pod) == nil && p.records.selecting(pod) == "" && job.Untrack(pod) {
		p.countFinalizer(pod, "delete") // no Job counts it
		if err := p.changed(key, pod); err != nil {
			return err
		}
	}
	o, err := p.ownersOf(obj)
	if err != nil {
		return err
	}
	for _, ref := range o.gone {
		if k := kindOf(ref); k.Namespaced && p.exists(k, ref.UID) {
			if err := p.elsewhere(key, obj, ref); err != nil {
				return err
			}
		}
	}
	return p.settleDependent(key)
}

// exists tells whether there was an object of a kind with a UID, wherever, when the pass began. It looks at all of them,
// and once for all that name the same owner.
func (p *pass) exists(k *kind.Kind, uid types.UID) bool {
	found, known := p.found[uid]
	if known {
		return found
	}
	p.tx.Range(k.GroupResource().String()+"/", "", func(o store.Object) bool {
		found = o.UID == string(uid)
		return !found
	})
	p.found[uid] = found
	return found
}

// elsewhere tells that an owner is not in the namespace where it would have to be.
func (p *pass) elsewhere(key string, obj object, ref metav1.OwnerReference) error {
	about := corev1.ObjectReference{Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID()}
	k := served()[resourceOf(key)]
	about.APIVersion, about.Kind = k.GroupVersion.String(), k.Name
	return p.event(about, garbageCollector, corev1.EventTypeWarning, "OwnerRefInvalidNamespace",
		fmt.Sprintf("ownerRef [%s/%s, namespace: %s, name: %s, uid: %s] does not exist in namespace %q",
			ref.APIVersion, ref.Kind, obj.GetNamespace(), ref.Name, ref.UID, obj.GetNamespace()))
}

// owns tells whether anything named an object among its owners when the pass began.
func (p *pass) owns(uid types.UID) (any bool) {
	p.tx.Owned(string(uid), "", func(string) bool {
		any = true
		return false
	})
	return any
}

func ownedBy(obj metav1.Object, uid types.UID) bool {
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == uid })
}
