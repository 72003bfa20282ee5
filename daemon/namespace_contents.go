package daemon

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/store"
)

// furnish gives a namespace what each has: the service account `default`, and the ConfigMap by which pods know the
// authority that the API's certificate is of. The ConfigMap is empty where the API is not served over TLS.
func (p *pass) furnish(namespace string) error {
	ns, ok, err := p.namespace(namespace)
	if err != nil || !ok || ns.DeletionTimestamp != nil {
		return err
	}
	meta := metav1.ObjectMeta{Namespace: namespace, CreationTimestamp: metav1.NewTime(p.now)}
	account := store.Key(serviceAccounts, namespace, core.DefaultServiceAccount)
	if _, ok := p.tx.Get(account); !ok {
		sa := &corev1.ServiceAccount{ObjectMeta: meta}
		sa.Name, sa.UID = core.DefaultServiceAccount, uuid.NewUUID()
		if err := p.put(account, sa); err != nil {
			return err
		}
	}
	authority := store.Key(configMaps, namespace, core.RootCAConfigMap)
	cm := &corev1.ConfigMap{ObjectMeta: meta}
	cm.Name, cm.UID = core.RootCAConfigMap, uuid.NewUUID()
	cm.Annotations = map[string]string{"kubernetes.io/description": "Holds the certificate that the API of jobd can be verified with."}
	if stored, ok := p.tx.Get(authority); ok {
		*cm = corev1.ConfigMap{}
		if err := decode(stored, cm); err != nil {
			return err
		}
		if len(cm.Data) == 1 && cm.Data[core.RootCAKey] == string(p.rootCA) || cm.DeletionTimestamp != nil {
			return nil
		}
	}
	cm.Data = map[string]string{core.RootCAKey: string(p.rootCA)}
	return p.put(authority, cm)
}

// foldContents looks at a namespace again when what furnish has put there was changed or deleted.
func (p *pass) foldContents(c store.Change) {
	resource, rest, _ := strings.Cut(c.Object.Key, "/")
	namespace, name, _ := strings.Cut(rest, "/")
	if resource == serviceAccounts && name == core.DefaultServiceAccount || resource == configMaps && name == core.RootCAConfigMap {
		p.records.furnishing.add(namespace)
	}
}
