package gc

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
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// component is the source of events about garbage collection, as in a cluster.
const component = "garbage-collector-controller"

// ownerCheck is the controller that checks objects to which clients have given owners.
type ownerCheck struct {
	loop.Base
	*Collector
}

// OwnerCheck returns the controller that checks objects whose owners may not exist.
func (c *Collector) OwnerCheck() loop.Controller { return &ownerCheck{Collector: c} }

// Fold notes objects that have other owners than before.
func (o *ownerCheck) Fold(_ *loop.Pass, c loop.Change) error {
	if c.Deleted {
		return nil
	}
	if c.Previous == nil || !slices.Equal(c.Previous.Owners, c.Object.Owners) {
		if len(c.Object.Owners) > 0 {
			o.abandoned.Add(c.Object.Key)
		}
	}
	if c.Previous != nil { // it may have been orphaned
		o.recheckOwners(c.Previous)
	}
	return nil
}

// Dirty implements loop.Controller.
func (o *ownerCheck) Dirty() bool { return o.abandoned.Len() > 0 }

// Settle implements loop.Controller.
func (o *ownerCheck) Settle(p *loop.Pass) (bool, error) {
	return o.abandoned.Settle(func(key string) error { return o.check(p, key) })
}

// Finish forgets the answers that are only valid in one pass.
func (o *ownerCheck) Finish(*loop.Pass) error {
	o.found = nil
	return nil
}

// check checks an object to which a client has given owners: if none of them exists, the object is deleted. If an owner
// is in another namespace, an event says so.
func (o *ownerCheck) check(p *loop.Pass, key string) error {
	if !p.Works(key) {
		return nil
	}
	obj, ok, err := o.objects.Get(p, key)
	if err != nil || !ok {
		return err
	}
	if pod, ok := obj.(*corev1.Pod); ok && metav1.GetControllerOfNoCopy(pod) == nil && !o.jobs.Adopts(pod) &&
		job.Untrack(pod) {
		p.Figures.FinalizerDeleted(pod) // no Job counts it
		if err := o.objects.Changed(p, key, pod); err != nil {
			return err
		}
	}
	owners, err := o.ownersOf(p, obj)
	if err != nil {
		return err
	}
	for _, ref := range owners.gone {
		if k := kindOf(ref); k.Namespaced && o.exists(p, k, ref.UID) {
			if err := elsewhere(p, key, obj, ref); err != nil {
				return err
			}
		}
	}
	return o.settleDependent(p, key)
}

// owners is what has become of the owners of an object (ObjectMeta.OwnerReferences).
type owners struct {
	there int
	gone  []metav1.OwnerReference
	// leaving are those that wait for their dependents to go first.
	leaving []types.UID
	// unknown says that the kind of an owner is unknown to jobd, or that nothing is known about it. Such an object is
	// left alone.
	unknown bool
}

func (c *Collector) ownersOf(p *loop.Pass, obj metav1.Object) (o owners, err error) {
	for _, ref := range obj.GetOwnerReferences() {
		k := kindOf(ref)
		if k == nil || k.Namespaced && obj.GetNamespace() == "" {
			return owners{unknown: true}, nil
		}
		owner, there, err := c.objects.Get(p, ownerKey(k, ref, obj.GetNamespace()))
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

// Stranger returns an owner of an object that is of a kind which is not served here, as KIND NAME (APIVERSION): the object is left
// alone then, whatever becomes of its other owners. Empty if it has none.
func Stranger(obj metav1.Object) string {
	for _, ref := range obj.GetOwnerReferences() {
		if kindOf(ref) == nil {
			return fmt.Sprintf("%s %s (%s)", ref.Kind, ref.Name, ref.APIVersion)
		}
	}
	return ""
}

// kindOf returns the kind of an owner, nil if jobd does not have it. The group counts and not its version, as for the
// controllers of Jobs and pods: an owner named by an older one (batch/v1beta1) is the same object.
func kindOf(ref metav1.OwnerReference) *kind.Kind {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil
	}
	for _, k := range objects.Served() {
		if k.Name == ref.Kind && k.GroupVersion.Group == gv.Group {
			return k
		}
	}
	return nil
}

// ownerKey returns the key at which an owner is stored: in the namespace of its dependent.
func ownerKey(k *kind.Kind, ref metav1.OwnerReference, namespace string) string {
	if !k.Namespaced {
		namespace = ""
	}
	return store.Key(k.GroupResource().String(), namespace, ref.Name)
}

// exists reports whether an object with this kind and UID existed, in any namespace, when the pass began. It visits all
// objects of the kind, but only once for all that name the same owner.
func (c *Collector) exists(p *loop.Pass, k *kind.Kind, uid types.UID) bool {
	if c.found == nil {
		c.found = map[types.UID]bool{}
	}
	found, known := c.found[uid]
	if known {
		return found
	}
	p.Snapshot().Range(k.GroupResource().String()+"/", "", func(o store.Object) bool {
		found = o.UID == string(uid)
		return !found
	})
	c.found[uid] = found
	return found
}

// elsewhere records an event that an owner is not in the namespace of its dependent.
func elsewhere(p *loop.Pass, key string, obj objects.Object, ref metav1.OwnerReference) error {
	about := corev1.ObjectReference{Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID()}
	k := objects.Served()[objects.ResourceOf(key)]
	about.APIVersion, about.Kind = k.GroupVersion.String(), k.Name
	return p.Event(about, component, corev1.EventTypeWarning, "OwnerRefInvalidNamespace",
		fmt.Sprintf("ownerRef [%s/%s, namespace: %s, name: %s, uid: %s] does not exist in namespace %q",
			ref.APIVersion, ref.Kind, obj.GetNamespace(), ref.Name, ref.UID, obj.GetNamespace()))
}
