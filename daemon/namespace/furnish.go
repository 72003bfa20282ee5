package namespace

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// Furnisher is the controller that creates in each namespace what it has in a cluster: the service account `default`,
// and the ConfigMap with the certificate authority of the API.
type Furnisher struct {
	loop.Base
	authority []byte
	lacking   *loop.Queue[string] // namespaces that may lack something
}

// NewFurnisher makes the controller. The authority is in PEM; if the API is not served over TLS there is none, and the
// ConfigMap is empty.
func NewFurnisher(authority []byte) *Furnisher {
	return &Furnisher{authority: authority, lacking: loop.NewQueue[string]()}
}

// NamespaceKnown looks at all namespaces, since the authority may have changed since the last start.
func (f *Furnisher) NamespaceKnown(ns *corev1.Namespace) {
	if ns.DeletionTimestamp == nil {
		f.lacking.Add(ns.Name)
	}
}

// NamespaceChanged implements loop.NamespaceFollower.
func (f *Furnisher) NamespaceChanged(_ *loop.Pass, ns *corev1.Namespace) error {
	f.NamespaceKnown(ns)
	return nil
}

// NamespaceGone implements loop.NamespaceFollower.
func (f *Furnisher) NamespaceGone(*loop.Pass, string) error { return nil }

// Fold looks at namespaces in which one of these objects was changed or deleted.
func (f *Furnisher) Fold(_ *loop.Pass, c loop.Change) error {
	namespace, name := objects.NameOf(c.Object.Key)
	if c.Resource == objects.ServiceAccounts && name == core.DefaultServiceAccount ||
		c.Resource == objects.ConfigMaps && name == core.RootCAConfigMap {
		f.lacking.Add(namespace)
	}
	return nil
}

// Dirty implements loop.Controller.
func (f *Furnisher) Dirty() bool { return f.lacking.Len() > 0 }

// Settle implements loop.Controller.
func (f *Furnisher) Settle(p *loop.Pass) (bool, error) {
	return f.lacking.Settle(func(name string) error { return f.furnish(p, name) })
}

func (f *Furnisher) furnish(p *loop.Pass, namespace string) error {
	if !p.Works(store.Key(objects.Namespaces, "", namespace)) {
		return nil
	}
	ns, ok, err := get(p, namespace)
	if err != nil || !ok || ns.DeletionTimestamp != nil {
		return err
	}
	meta := metav1.ObjectMeta{Namespace: namespace, CreationTimestamp: metav1.NewTime(p.Now)}
	account := store.Key(objects.ServiceAccounts, namespace, core.DefaultServiceAccount)
	if _, ok := p.Get(account); !ok {
		sa := &corev1.ServiceAccount{ObjectMeta: meta}
		sa.Name, sa.UID = core.DefaultServiceAccount, uuid.NewUUID()
		if err := p.Put(account, sa); err != nil {
			return err
		}
	}
	key := store.Key(objects.ConfigMaps, namespace, core.RootCAConfigMap)
	cm := &corev1.ConfigMap{}
	if ok, err := objects.Read(p, key, cm); err != nil {
		return err
	} else if !ok {
		cm.ObjectMeta = meta
		cm.Name, cm.UID = core.RootCAConfigMap, uuid.NewUUID()
		cm.Annotations = map[string]string{
			"kubernetes.io/description": "Holds the certificate that the API of jobd can be verified with.",
		}
	} else if len(cm.Data) == 1 && cm.Data[core.RootCAKey] == string(f.authority) || cm.DeletionTimestamp != nil {
		return nil
	}
	cm.Data = map[string]string{core.RootCAKey: string(f.authority)}
	return p.Put(key, cm)
}
